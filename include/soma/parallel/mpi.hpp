#pragma once
// Ranks that are processes, on one machine or many, over MPI (version 3 or later).
//
//   int main() {
//     soma::mpi::Environment environment;
//     soma::mpi::Communicator communicator;  // of all processes that mpirun has started
//     ...
//   }

#include <soma/base/error.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/runtime/log.hpp>
#include <soma/system/which.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stdlib.h>  // setenv is not in <cstdlib>

#if !SOMA_LINUX
#error "soma/mpi.hpp is for Linux. Elsewhere ranks are threads (soma/parallel/in_process.hpp), or"
#error "processes behind a soma::Communicator of your own."
#endif

// Only MPI's C functions are used. Its old C++ classes would have to be linked, and cause warnings.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

namespace SOMA_NAMESPACE::mpi {

namespace detail {

// MPI's own text for a code.
inline std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return "code " + std::to_string(code);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace detail

// Error parallel.transport unless the call of MPI that returned `code` succeeded.
inline void check(std::string_view call, int code) {
  if (code != MPI_SUCCESS)
    fail(error_id::parallel_transport, call, "result", soma::quoted(detail::text_of(code)),
         "MPI_SUCCESS");
}

// Initialises MPI until the end of the object; does nothing if the host has already initialised it.
// If an exception leaves its scope, MPI stays initialised, because MPI_Finalize would wait for
// ranks that may be waiting for this one. The host catches the exception and says what happened.
// The end of its process then ends the processes of all ranks with exit code 1 (MPI_Abort), even if
// main() returns 0. If MPI offers no more than MPI_THREAD_FUNNELED, communicators belong to the
// thread that made this object. MPI waits here for all processes without a limit: a host that needs
// a limit enforces it on another thread. Error parallel.transport.
//
// Open MPI over TCP lets a receiver ask for the pieces of a large message. Two ranks that exchange
// such messages then wait for each other: between two hosts with 1 Gbit/s, both directions together
// carry as much as one direction could. With sends instead, they carry nearly twice as much, so
// sends are the default here: environment variable OMPI_MCA_btl_tcp_flags, unless it is already
// set.
class Environment {
 public:
  Environment() : exceptions_(std::uncaught_exceptions()) {
    int initialised = 0, provided = 0;
    mpi::check("MPI_Initialized", MPI_Initialized(&initialised));
    if (initialised != 0) return;
    ::setenv("OMPI_MCA_btl_tcp_flags", "1", 0);  // MCA_BTL_FLAGS_SEND
    // One thread at a time, which the contract of Communicator guarantees.
    mpi::check("MPI_Init_thread",
               MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
    owner_ = true;
    if (provided < MPI_THREAD_FUNNELED) {
      MPI_Finalize();
      fail(error_id::parallel_transport, "MPI_Init_thread", "level of thread support",
           std::to_string(provided), "MPI_THREAD_FUNNELED or more");
    }
  }
  ~Environment() {
    if (!owner_) return;
    int finalised = 0;
    if (MPI_Finalized(&finalised) != MPI_SUCCESS || finalised != 0) return;
    if (std::uncaught_exceptions() == exceptions_)
      MPI_Finalize();
    else if (std::atexit(end_all_ranks) != 0)
      end_all_ranks();
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  // MPI_Abort does not return, and does not write what the host has printed.
  static void end_all_ranks() {
    int finalised = 0;
    if (MPI_Finalized(&finalised) != MPI_SUCCESS || finalised != 0) return;
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  int exceptions_;  // that were on their way when this was made
  bool owner_ = false;
};

struct Options {
  MPI_Comm group = MPI_COMM_WORLD;
  LogSink log{};  // gets the reason of abort(): nobody else prints it
  // Larger messages are sent in pieces, because MPI counts bytes in an int.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

// A communicator over a duplicate of the group, so that its messages are never confused with the
// host's own. All ranks of the group make and destroy it together, while MPI is initialised. Only
// MPI calls move messages; there is no background thread: a program with several messages in
// transit should test them now and then. After an error call abort(): MPI guarantees nothing about
// a job that has lost a rank (most launchers end it themselves), and may still use the buffers of
// messages that had begun to arrive.
class Communicator final : public soma::Communicator {
 public:
  // Errors parallel.transport, parallel.argument (the options).
  explicit Communicator(const Options& options = {})
      : log_(options.log), piece_bytes_(options.piece_bytes) {
    constexpr std::size_t most = std::size_t{1} << 30;
    if (piece_bytes_ == 0 || piece_bytes_ > most)
      fail(error_id::parallel_argument, "mpi::Communicator", "piece_bytes",
           std::to_string(piece_bytes_), "1 to " + std::to_string(most));
    if (options.group == MPI_COMM_NULL)
      fail(error_id::parallel_argument, "mpi::Communicator", "group", "MPI_COMM_NULL",
           "a group of processes");
    mpi::check("MPI_Comm_dup", MPI_Comm_dup(options.group, &group_));
    // Without this a failed call would end the process.
    mpi::check("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN));
    mpi::check("MPI_Comm_rank", MPI_Comm_rank(group_, &rank_));
    mpi::check("MPI_Comm_size", MPI_Comm_size(group_, &size_));
  }
  ~Communicator() override {
    int finalised = 0;
    // During an exception the other ranks may not come here, and freeing would wait for them.
    if (MPI_Finalized(&finalised) == MPI_SUCCESS && finalised == 0 &&
        std::uncaught_exceptions() == exceptions_)
      MPI_Comm_free(&group_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  // MPI_Abort: ends the processes of all ranks, including this one.
  void abort(std::string_view reason) override {
    log_(LogLevel::error, "rank " + std::to_string(rank_) + ": " + std::string(reason));
    MPI_Abort(group_, 1);
  }

 protected:
  std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) override {
    Message message{rank_, to, tag, false, bytes.size(), {}, 0};
    for_pieces(bytes.size(), [&](std::size_t begin, int count) {
      const int code = MPI_Isend(bytes.data() + begin, count, MPI_BYTE, to, tag, group_,
                                 &message.requests.emplace_back(MPI_REQUEST_NULL));
      mpi::check("MPI_Isend", code);
    });
    return keep(std::move(message));
  }
  std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) override {
    Message message{from, rank_, tag, true, bytes.size(), {}, 0};
    for_pieces(bytes.size(), [&](std::size_t begin, int count) {
      const int code = MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, from, tag, group_,
                                 &message.requests.emplace_back(MPI_REQUEST_NULL));
      mpi::check("MPI_Irecv", code);
    });
    return keep(std::move(message));
  }
  bool poll(std::uint64_t number) override {
    const auto found = messages_.find(number);
    Message& message = found->second;
    for (; message.over < message.requests.size(); ++message.over) {
      int over = 0;
      MPI_Status status{};
      const int code = MPI_Test(&message.requests[message.over], &over, &status);
      if (code != MPI_SUCCESS) failed(message, code);
      if (over == 0) return false;
      if (message.receives) check_count(message, status);
    }
    messages_.erase(found);
    return true;
  }
  // A message that has begun to move cannot be cancelled; MPI keeps it.
  void cancel(std::uint64_t number) noexcept override {
    const auto found = messages_.find(number);
    for (MPI_Request& request : found->second.requests) {
      if (request == MPI_REQUEST_NULL) continue;
      if (found->second.receives) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    messages_.erase(found);
  }

 private:
  struct Message {
    int from, to, tag;
    bool receives;
    std::size_t bytes;
    std::vector<MPI_Request> requests;  // one for each piece
    std::size_t over;                   // so many of them are
  };

  // The last piece is smaller than the others, perhaps empty: so a message that is longer or
  // shorter than its receiver expects shows in one of the pieces.
  template <class Start>
  void for_pieces(std::size_t bytes, const Start& start) {
    for (std::size_t begin = 0; begin <= bytes; begin += piece_bytes_)
      start(begin, static_cast<int>((std::min)(piece_bytes_, bytes - begin)));
  }
  std::uint64_t keep(Message message) {
    messages_.emplace(++last_number_, std::move(message));
    return last_number_;
  }
  void check_count(const Message& message, const MPI_Status& status) const {
    int count = 0;
    mpi::check("MPI_Get_count", MPI_Get_count(&status, MPI_BYTE, &count));
    const std::size_t before = message.over * piece_bytes_;
    const std::size_t expected = (std::min)(piece_bytes_, message.bytes - before);
    const auto sent = static_cast<std::size_t>(count);
    if (sent != expected)
      wrong_size(message.from, message.to, message.tag, before + sent, message.bytes);
  }
  [[noreturn]] void failed(const Message& message, int code) const {
    int kind = 0;
    MPI_Error_class(code, &kind);
    const std::string name = name_of(message.from, message.to, message.tag);
    if (kind == MPI_ERR_TRUNCATE)
      fail(error_id::message_size, "MPI_Test", name, "longer than its receiver expects",
           std::to_string(message.bytes) + " bytes");
    fail(error_id::parallel_transport, "MPI_Test", name, soma::quoted(detail::text_of(code)),
         "MPI_SUCCESS");
  }

  LogSink log_;
  std::size_t piece_bytes_;
  MPI_Comm group_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  int exceptions_ = std::uncaught_exceptions();
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Message> messages_;
};

}  // namespace SOMA_NAMESPACE::mpi
