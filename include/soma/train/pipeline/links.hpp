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

namespace soma::train {

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
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> sizes{};  // behind the first dimension

  bool per_row() const { return rows == Rows::rows || rows == Rows::plain_rows; }
  Shape shape(const Sequences& sequences) const {
    std::array<std::size_t, max_rank> all = sizes;
    all[0] = per_row() ? sequences.rows() : sequences.count();
    return Shape(std::span<const std::size_t>(all.data(), rank));
  }
  Sequences sequences(Context& context, const Sequences& of_batch) const {
    if (rows == Rows::rows) return of_batch;
    return rows == Rows::sequences ? of_batch.summary(context) : Sequences();
  }

  // Error parallel.plan: the number of rows is neither that of the batch's rows nor of its
  // sequences.
  static CutLayout of(const Var& x, const Sequences& batch) {
    CutLayout layout;
    const Shape& shape = x.shape();
    const Sequences& own = x.sequences();
    layout.dtype = x.value().dtype();
    layout.rank = shape.rank();
    for (std::size_t i = 0; i < shape.rank(); ++i) layout.sizes[i] = shape[i];
    const std::size_t first = shape.rank() == 0 ? batch.rows() + 1 : shape[0];
    if (own.defined() && own.offsets().data() == batch.offsets().data() && first == batch.rows())
      layout.rows = Rows::rows;
    else if (own.defined() && own.rows() == first && own.count() == first && first == batch.count())
      layout.rows = Rows::sequences;
    else if (!own.defined() && (first == batch.rows() || first == batch.count()))
      layout.rows = first == batch.rows() ? Rows::plain_rows : Rows::plain_sequences;
    else
      fail(error_id::parallel_plan, "pipeline", "result of a stage", x.value().describe(),
           "a row for each of the batch's " + std::to_string(batch.rows()) + " rows or " +
               std::to_string(batch.count()) + " sequences");
    return layout;
  }
};

class StageLinks {
 public:
  // Errors of all members: those of Communicator; parallel.timeout names stage, direction and
  // micro-batch.
  StageLinks(Context& context, Communicator& pipeline)
      : context_(context),
        pipeline_(pipeline),
        forwards_(pipeline.rank() - 1, "forward"),
        backwards_(pipeline.rank() + 1, "backward") {}

  // ---- to the neighbours

  void send_forward(std::size_t number, const Var& x, const Sequences& batch) {
    if (!sent_behind_) {
      behind_ = CutLayout::of(x, batch);
      send_layout(backwards_.peer, behind_);
      sent_behind_ = true;
    }
    send(backwards_.peer, forward_tag(number), x.value());
  }
  void send_backward(std::size_t number, const Tensor& gradient) {
    if (!sent_before_) {
      before_.gradient_dtype = gradient.dtype();
      send_layout(forwards_.peer, before_);
      sent_before_ = true;
    }
    send(forwards_.peer, backward_tag(number), gradient);
  }
  // Frees messages that have arrived; never waits.
  void poll() {
    while (!sends_.empty() && pipeline_.test(sends_.front().request)) {
      const std::size_t before = context_.heap().bytes_in_use();
      sends_.pop_front();
      released_ += before - context_.heap().bytes_in_use();
    }
  }
  // Bytes that poll() has returned to the heap so far. Their timing depends on the neighbours.
  std::size_t released_bytes() const { return released_; }
  void finish_sends() {
    for (; !sends_.empty(); sends_.pop_front()) pipeline_.wait(sends_.front().request);
  }

  // ---- from the neighbours

  bool knows_forward() const { return known_before_; }
  bool knows_backward() const { return known_behind_; }
  // Starts to receive the next result, or its gradient, which has number `number` in this pass.
  void ask_forward(std::size_t number, const Sequences& batch) {
    learn_before();
    ask(forwards_, forward_tag(number), number, before_.shape(batch), before_.dtype);
  }
  void ask_backward(std::size_t number, const Sequences& batch) {
    learn_behind();
    ask(backwards_, backward_tag(number), number, behind_.shape(batch), behind_.gradient_dtype);
  }
  // Waits for the oldest receive that was started.
  Tensor take_forward() { return take(forwards_); }
  Tensor take_backward() { return take(backwards_); }
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
  using Words = std::array<std::int64_t, 4 + max_rank>;

  // Above the tags of gradient buckets, below the tags of collectives. Messages with the same tag
  // keep their order, so numbers may repeat.
  static constexpr int first_tag = 1024, tags = 8192;
  static constexpr int layout_tag = first_tag + 2 * tags;
  static int forward_tag(std::size_t number) {
    return first_tag + static_cast<int>(number % static_cast<std::size_t>(tags));
  }
  static int backward_tag(std::size_t number) { return forward_tag(number) + tags; }

  static Words words_of(const CutLayout& layout) {
    Words words{static_cast<std::int64_t>(layout.rows), static_cast<std::int64_t>(layout.dtype),
                static_cast<std::int64_t>(layout.gradient_dtype),
                static_cast<std::int64_t>(layout.rank)};
    for (std::size_t i = 0; i < layout.sizes.size(); ++i)
      words[4 + i] = static_cast<std::int64_t>(layout.sizes[i]);
    return words;
  }
  CutLayout receive_layout(Direction& direction) {
    Words words{};
    Request request = pipeline_.start_receive(direction.peer, layout_tag,
                                              std::as_writable_bytes(std::span(words)));
    wait(request, direction, 0);
    CutLayout layout;
    layout.rows = static_cast<CutLayout::Rows>(words[0]);
    layout.dtype = static_cast<DType>(words[1]);
    layout.gradient_dtype = static_cast<DType>(words[2]);
    layout.rank = static_cast<std::size_t>(words[3]);
    for (std::size_t i = 0; i < layout.sizes.size(); ++i)
      layout.sizes[i] = static_cast<std::size_t>(words[4 + i]);
    return layout;
  }
  void learn_before() {
    if (std::exchange(known_before_, true)) return;
    before_ = receive_layout(forwards_);
  }
  void learn_behind() {
    if (std::exchange(known_behind_, true)) return;
    behind_.gradient_dtype = receive_layout(backwards_).gradient_dtype;
  }

  void send_layout(int peer, const CutLayout& layout) {
    const Words words = words_of(layout);
    send(peer, layout_tag,
         Tensor::from(context_, std::span<const std::int64_t>(words), Shape{words.size()}));
  }
  void send(int peer, int tag, const Tensor& values) {
    Tensor whole = contiguous(context_, values);
    const std::span<const std::byte> bytes(whole.raw(), whole.bytes());
    sends_.push_back({std::move(whole), pipeline_.start_send(peer, tag, bytes)});
    poll();
  }
  void ask(Direction& direction, int tag, std::size_t number, const Shape& shape, DType dtype) {
    Tensor values = Tensor::empty(context_, shape, dtype);
    const std::span<std::byte> bytes(values.mutable_raw(), values.bytes());
    direction.asked.push_back(
        {number, std::move(values), pipeline_.start_receive(direction.peer, tag, bytes)});
  }
  Tensor take(Direction& direction) {
    Arrival& first = direction.asked.front();
    wait(first.request, direction, first.number);
    Tensor values = std::move(first.values);
    direction.asked.pop_front();
    return values;
  }
  void wait(Request& request, [[maybe_unused]] const Direction& direction,
            [[maybe_unused]] std::size_t number) {
    if (pipeline_.test(request)) return;
    const std::int64_t start = monotonic_nanoseconds();
#if SOMA_HAS_EXCEPTIONS
    try {
      pipeline_.wait(request);
    } catch (const Error& error) {
      if (!(error.id() == error_id::parallel_timeout)) throw;
      fail(error_id::parallel_timeout, "pipeline",
           "stage " + std::to_string(pipeline_.rank()) + ", " + std::string(direction.name) +
               " of micro-batch " + std::to_string(number),
           error.given(), error.wanted());
    }
#else
    pipeline_.wait(request);
#endif
    waited_ += static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  }

  Context& context_;
  Communicator& pipeline_;
  CutLayout before_{}, behind_{};
  bool known_before_ = false, known_behind_ = false, sent_before_ = false, sent_behind_ = false;
  std::deque<Send> sends_{};  // before their requests end, tensors do not
  Direction forwards_, backwards_;
  double waited_ = 0;
  std::size_t released_ = 0;
};

}  // namespace soma::train
