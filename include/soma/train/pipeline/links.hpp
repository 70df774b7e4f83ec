#pragma once
// StageLinks: the messages that cross the cuts before and after a stage: results go forward, their
// gradients backward. Sends do not wait. Receives are started ahead, in buffers whose size follows
// from the micro-batch. The layout of a cut's variables, except the number of rows, is sent once,
// before the first variable.

#include <soma/autograd/tape.hpp>
#include <soma/data/batch.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::train {

// The common layout of all variables at one cut.
struct CutLayout {
  enum class Rows : std::uint64_t {
    rows,        // one for each row of the batch, which form its sequences
    sequences,   // one for each sequence
    plain_rows,  // as many as either, and they form no sequences
    plain_sequences,
  };
  Rows rows = Rows::rows;
  DType dtype = DType::fp32;           // the type of results
  DType gradient_dtype = DType::fp32;  // the type of their gradients
  BatchPlace place{};                  // of the rows
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> sizes{};  // of the dimensions without rows

  bool per_row() const { return rows == Rows::rows || rows == Rows::plain_rows; }
  Shape shape(const Sequences& sequences) const;
  Sequences sequences(Context& context, const Sequences& of_batch) const;

  // Error parallel.plan: the number of rows is neither that of the batch's rows nor of its
  // sequences.
  static CutLayout of(const Var& x, const Sequences& batch);
};

class StageLinks {
 public:
  // Errors of all members: those of Communicator; parallel.timeout names stage, direction and
  // micro-batch.
  StageLinks(Context& context, Communicator& pipeline);

  // ---- to the neighbours

  void send_forward(std::size_t number, const Var& x, const Sequences& batch);
  void send_backward(std::size_t number, const Tensor& gradient);
  // Frees messages that have arrived; never waits.
  void poll();
  // Bytes that poll() has returned to the heap so far. Their timing depends on the neighbours.
  std::size_t released_bytes() const { return released_; }
  // Waits until at most `left` messages are on their way.
  void finish_sends(std::size_t left = 0);

  // ---- from the neighbours

  bool knows_forward() const { return known_before_; }
  bool knows_backward() const { return known_behind_; }
  // Starts to receive the next result, or its gradient, which has number `number` in this pass.
  void ask_forward(std::size_t number, const Sequences& batch);
  void ask_backward(std::size_t number, const Sequences& batch);
  // Waits for the oldest receive that was started.
  Tensor take_forward();
  Tensor take_backward();
  const CutLayout& before() const { return before_; }

  double waited_seconds() const { return waited_; }

 private:
  struct Arrival {
    std::size_t number;
    Tensor values;
    Request request;
  };
  struct Direction {
    Direction(int other, std::string_view text) : peer(other), name(text) {}
    int peer;
    std::string_view name;
    std::deque<Arrival> asked{};
  };
  struct Send {
    Tensor values;
    Request request;
  };
  using Words = std::array<std::int64_t, 7 + max_rank>;

  // Above the tags of gradient buckets, below the tags of collectives. Messages with the same tag
  // keep their order, so numbers may repeat.
  static constexpr int first_tag = 1024, tags = 8192;
  static constexpr int layout_tag = first_tag + 2 * tags;
  static int forward_tag(std::size_t number);
  static int backward_tag(std::size_t number);

  static Words words_of(const CutLayout& layout);
  CutLayout receive_layout(Direction& direction);
  void learn_before();
  void learn_behind();

  void send_layout(int peer, const CutLayout& layout);
  void send(int peer, int tag, const Tensor& values);
  void ask(Direction& direction, int tag, std::size_t number, const Shape& shape, DType dtype);
  Tensor take(Direction& direction);
  void wait(Request& request, [[maybe_unused]] const Direction& direction,
            [[maybe_unused]] std::size_t number);

  Context& context_;
  Communicator& pipeline_;
  CutLayout before_{}, behind_{};
  bool known_before_ = false, known_behind_ = false, sent_before_ = false, sent_behind_ = false;
  std::deque<Send> sends_{};  // before their requests end, tensors do not
  Direction forwards_, backwards_;
  double waited_ = 0;
  std::size_t released_ = 0;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/links.ipp>
#endif
