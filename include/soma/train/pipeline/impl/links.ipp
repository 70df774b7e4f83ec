#pragma once
// The functions of links.hpp.

#include <soma/train/pipeline/links.hpp>

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

SOMA_INLINE Shape CutLayout::shape(const Sequences& sequences) const {
  std::array<std::size_t, max_rank> all = sizes;
  all[place.dimension] =
      place.outer * (per_row() ? sequences.rows() : sequences.count()) * place.inner;
  return Shape(std::span<const std::size_t>(all.data(), rank));
}

SOMA_INLINE Sequences CutLayout::sequences(Context& context, const Sequences& of_batch) const {
  if (rows == Rows::rows) return of_batch.at(place);
  return rows == Rows::sequences ? of_batch.summary(context).at(place) : Sequences();
}

SOMA_INLINE CutLayout CutLayout::of(const Var& x, const Sequences& batch) {
  CutLayout layout;
  const Shape& shape = x.shape();
  const Sequences& own = x.sequences();
  layout.dtype = x.value().dtype();
  layout.rank = shape.rank();
  for (std::size_t i = 0; i < shape.rank(); ++i) layout.sizes[i] = shape[i];
  const std::size_t first = shape.rank() == 0 ? batch.rows() + 1 : shape[0];
  if (own.defined()) layout.place = own.place();
  if (own.defined() && own.same_batch(batch))
    layout.rows = Rows::rows;
  else if (own.defined() && own.summarizes(batch))
    layout.rows = Rows::sequences;
  else if (!own.defined() && (first == batch.rows() || first == batch.count()))
    layout.rows = first == batch.rows() ? Rows::plain_rows : Rows::plain_sequences;
  else
    fail(error_id::parallel_plan, "pipeline", "result of a stage", x.value().describe(),
         "a row for each of the batch's " + std::to_string(batch.rows()) + " rows or " +
             std::to_string(batch.count()) + " sequences");
  return layout;
}

SOMA_INLINE StageLinks::StageLinks(Context& context, Communicator& pipeline)
    : context_(context),
      pipeline_(pipeline),
      forwards_(pipeline.rank() - 1, "forward"),
      backwards_(pipeline.rank() + 1, "backward") {}

SOMA_INLINE void StageLinks::send_forward(std::size_t number, const Var& x,
                                          const Sequences& batch) {
  if (!sent_behind_) {
    behind_ = CutLayout::of(x, batch);
    send_layout(backwards_.peer, behind_);
    sent_behind_ = true;
  }
  send(backwards_.peer, forward_tag(number), x.value());
}

SOMA_INLINE void StageLinks::send_backward(std::size_t number, const Tensor& gradient) {
  if (!sent_before_) {
    before_.gradient_dtype = gradient.dtype();
    send_layout(forwards_.peer, before_);
    sent_before_ = true;
  }
  send(forwards_.peer, backward_tag(number), gradient);
}

SOMA_INLINE void StageLinks::poll() {
  while (!sends_.empty() && pipeline_.test(sends_.front().request)) {
    const std::size_t before = context_.heap().bytes_in_use();
    sends_.pop_front();
    released_ += before - context_.heap().bytes_in_use();
  }
}

SOMA_INLINE void StageLinks::finish_sends(std::size_t left) {
  for (; sends_.size() > left; sends_.pop_front()) pipeline_.wait(sends_.front().request);
}

SOMA_INLINE void StageLinks::ask_forward(std::size_t number, const Sequences& batch) {
  learn_before();
  ask(forwards_, forward_tag(number), number, before_.shape(batch), before_.dtype);
}

SOMA_INLINE void StageLinks::ask_backward(std::size_t number, const Sequences& batch) {
  learn_behind();
  ask(backwards_, backward_tag(number), number, behind_.shape(batch), behind_.gradient_dtype);
}

SOMA_INLINE Tensor StageLinks::take_forward() { return take(forwards_); }

SOMA_INLINE Tensor StageLinks::take_backward() { return take(backwards_); }

SOMA_INLINE int StageLinks::forward_tag(std::size_t number) {
  return first_tag + static_cast<int>(number % static_cast<std::size_t>(tags));
}

SOMA_INLINE int StageLinks::backward_tag(std::size_t number) { return forward_tag(number) + tags; }

SOMA_INLINE auto StageLinks::words_of(const CutLayout& layout) -> Words {
  Words words{static_cast<std::int64_t>(layout.rows),
              static_cast<std::int64_t>(layout.dtype),
              static_cast<std::int64_t>(layout.gradient_dtype),
              static_cast<std::int64_t>(layout.place.dimension),
              static_cast<std::int64_t>(layout.place.outer),
              static_cast<std::int64_t>(layout.place.inner),
              static_cast<std::int64_t>(layout.rank)};
  for (std::size_t i = 0; i < layout.sizes.size(); ++i)
    words[7 + i] = static_cast<std::int64_t>(layout.sizes[i]);
  return words;
}

SOMA_INLINE CutLayout StageLinks::receive_layout(Direction& direction) {
  Words words{};
  Request request =
      pipeline_.start_receive(direction.peer, layout_tag, std::as_writable_bytes(std::span(words)));
  wait(request, direction, 0);
  CutLayout layout;
  layout.rows = static_cast<CutLayout::Rows>(words[0]);
  layout.dtype = static_cast<DType>(words[1]);
  layout.gradient_dtype = static_cast<DType>(words[2]);
  layout.place = {static_cast<std::size_t>(words[3]), static_cast<std::size_t>(words[4]),
                  static_cast<std::size_t>(words[5])};
  layout.rank = static_cast<std::size_t>(words[6]);
  for (std::size_t i = 0; i < layout.sizes.size(); ++i)
    layout.sizes[i] = static_cast<std::size_t>(words[7 + i]);
  return layout;
}

SOMA_INLINE void StageLinks::learn_before() {
  if (std::exchange(known_before_, true)) return;
  before_ = receive_layout(forwards_);
}

SOMA_INLINE void StageLinks::learn_behind() {
  if (std::exchange(known_behind_, true)) return;
  behind_.gradient_dtype = receive_layout(backwards_).gradient_dtype;
}

SOMA_INLINE void StageLinks::send_layout(int peer, const CutLayout& layout) {
  const Words words = words_of(layout);
  send(peer, layout_tag,
       Tensor::from(context_, std::span<const std::int64_t>(words), Shape{words.size()}));
}

SOMA_INLINE void StageLinks::send(int peer, int tag, const Tensor& values) {
  Tensor whole = contiguous(context_, values);
  const std::span<const std::byte> bytes(whole.raw(), whole.bytes());
  sends_.push_back({std::move(whole), pipeline_.start_send(peer, tag, bytes)});
  poll();
}

SOMA_INLINE void StageLinks::ask(Direction& direction, int tag, std::size_t number,
                                 const Shape& shape, DType dtype) {
  Tensor values = Tensor::empty(context_, shape, dtype);
  const std::span<std::byte> bytes(values.mutable_raw(), values.bytes());
  direction.asked.push_back(
      {number, std::move(values), pipeline_.start_receive(direction.peer, tag, bytes)});
}

SOMA_INLINE Tensor StageLinks::take(Direction& direction) {
  Arrival& first = direction.asked.front();
  wait(first.request, direction, first.number);
  Tensor values = std::move(first.values);
  direction.asked.pop_front();
  return values;
}

SOMA_INLINE void StageLinks::wait(Request& request, [[maybe_unused]] const Direction& direction,
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

}  // namespace SOMA_NAMESPACE::train
