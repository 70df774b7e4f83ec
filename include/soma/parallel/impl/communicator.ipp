#pragma once
// The functions of communicator.hpp.

#include <soma/parallel/communicator.hpp>

#include <soma/base/error.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/threads.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE Request::Request(Request&& other) noexcept { *this = std::move(other); }

SOMA_INLINE Request& Request::operator=(Request&& other) noexcept {
  std::swap(communicator_, other.communicator_);
  std::swap(number_, other.number_);
  std::swap(peer_, other.peer_);
  std::swap(tag_, other.tag_);
  std::swap(receives_, other.receives_);
  return *this;
}

SOMA_INLINE Request::~Request() { cancel(); }

SOMA_INLINE Request::Request(Communicator& communicator, std::uint64_t number, int peer, int tag,
                             bool receives)
    : communicator_(&communicator), number_(number), peer_(peer), tag_(tag), receives_(receives) {}

SOMA_INLINE Request Communicator::start_send(int to, int tag, std::span<const std::byte> bytes) {
  check("start_send", to, tag);
  return Request(*this, begin_send(to, tag, bytes), to, tag, false);
}

SOMA_INLINE Request Communicator::start_receive(int from, int tag, std::span<std::byte> bytes) {
  check("start_receive", from, tag);
  return Request(*this, begin_receive(from, tag, bytes), from, tag, true);
}

SOMA_INLINE bool Communicator::test(Request& request) {
  if (!request.pending()) return true;
  if (!poll(request.number_)) return false;
  request.communicator_ = nullptr;
  return true;
}

SOMA_INLINE void Communicator::wait(Request& request) {
  const std::int64_t start = monotonic_nanoseconds();
  for (std::uint64_t round = 0; !test(request); ++round) {
    const std::int64_t now = monotonic_nanoseconds();
    if (time_limit_ > 0 && now - start > time_limit_) timed_out(request, now - start);
    if (stop_ != nullptr && stop_->requested()) {
      if (stop_seen_ == 0) stop_seen_ = now;
      if (now - (std::max)(start, stop_seen_) >= patience_) given_up(request);
    }
    idle(round);
  }
}

SOMA_INLINE void Communicator::send(int to, int tag, std::span<const std::byte> bytes) {
  Request request = start_send(to, tag, bytes);
  wait(request);
}

SOMA_INLINE void Communicator::receive(int from, int tag, std::span<std::byte> bytes) {
  Request request = start_receive(from, tag, bytes);
  wait(request);
}

SOMA_INLINE void Communicator::exchange(int peer, int tag, std::span<const std::byte> sent,
                                        std::span<std::byte> received) {
  Request in = start_receive(peer, tag, received);
  Request out = start_send(peer, tag, sent);
  wait(in);
  wait(out);
}

SOMA_INLINE void Communicator::barrier() {
  for (int distance = 1; distance < size(); distance *= 2) {
    Request in = start_receive((rank() + size() - distance) % size(), barrier_tag, {});
    Request out = start_send((rank() + distance) % size(), barrier_tag, {});
    wait(in);
    wait(out);
  }
}

SOMA_INLINE double Communicator::time_limit() const {
  return static_cast<double>(time_limit_) * 1e-9;
}

SOMA_INLINE void Communicator::set_time_limit(double seconds) {
  if (!(seconds >= 0 && seconds <= longest_limit))
    fail(error_id::parallel_argument, "Communicator", "time_limit", "out of range",
         "0 (none) to 1000000000 seconds");
  time_limit_ = static_cast<std::int64_t>(std::ceil(seconds * 1e9));  // 0 would be for ever
}

SOMA_INLINE void Communicator::give_up_after(const StopFlag* stop, double seconds) {
  stop_ = stop;
  stop_seen_ = 0;
  patience_ = static_cast<std::int64_t>((std::min)(seconds, longest_limit) * 1e9);
}

SOMA_INLINE void Communicator::idle(std::uint64_t round) {
  constexpr std::uint64_t busy_rounds = 1000;  // some milliseconds: longer than most waits
  constexpr std::int64_t nap = 50'000;         // nanoseconds
  if (round < busy_rounds)
    system::yield();
  else
    system::sleep_for(nap);
}

SOMA_INLINE void Communicator::lost(int lost_rank, std::string_view reason) const {
  fail(error_id::rank_lost, "Communicator", "rank " + std::to_string(lost_rank),
       "lost (" + std::string(reason) + ")",
       "alive as long as rank " + std::to_string(rank()) + " waits for messages");
}

SOMA_INLINE void Communicator::wrong_size(int from, int to, int tag, std::size_t sent,
                                          std::size_t expected) const {
  fail(error_id::message_size, "Communicator", name_of(from, to, tag),
       std::to_string(sent) + " bytes", std::to_string(expected) + " bytes, as the receiver said");
}

SOMA_INLINE std::string Communicator::name_of(int from, int to, int tag) {
  return "the message from rank " + std::to_string(from) + " to rank " + std::to_string(to) +
         " with tag " + std::to_string(tag);
}

SOMA_INLINE void Communicator::check(std::string_view operation, int peer, int tag) const {
  if (peer < 0 || peer >= size() || peer == rank())
    fail(error_id::parallel_argument, operation, "rank", std::to_string(peer),
         "one of " + std::to_string(size()) + ", and not this one, " + std::to_string(rank()));
  if (tag < 0 || tag > max_tag)
    fail(error_id::parallel_argument, operation, "tag", std::to_string(tag),
         "0 to " + std::to_string(max_tag));
}

SOMA_INLINE void Communicator::timed_out(Request& request, std::int64_t waited) {
  const int from = request.receives_ ? request.peer_ : rank();
  const int to = request.receives_ ? rank() : request.peer_;
  request.cancel();
  fail(error_id::parallel_timeout, "Communicator", name_of(from, to, request.tag_),
       "not over after " + std::to_string(waited / 1'000'000) + " ms",
       "a rank " + std::to_string(request.peer_) + " that answers within the time limit");
}

SOMA_INLINE void Communicator::given_up(Request& request) {
  const std::string name = name_of(request.receives_ ? request.peer_ : rank(),
                                   request.receives_ ? rank() : request.peer_, request.tag_);
  request.cancel();
  fail(error_id::stopped, "Communicator", name, "not over though a stop is requested",
       "a rank " + std::to_string(request.peer_) + " that comes to the end of its step");
}

SOMA_INLINE void Request::cancel() noexcept {
  if (communicator_ != nullptr) std::exchange(communicator_, nullptr)->cancel(number_);
}

}  // namespace SOMA_NAMESPACE
