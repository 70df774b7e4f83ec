// A Communicator over stream sockets, one to each other rank: what a host with a transport of its
// own would write. Used by tests, with pairs of sockets inside one machine.
#pragma once

#include <soma/parallel/communicator.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace soma_test {

class SocketCommunicator final : public soma::Communicator {
 public:
  // sockets[r] leads to rank r; its own place is unused. They are closed in the end.
  SocketCommunicator(int rank, std::vector<int> sockets) : rank_(rank) {
    for (const int socket : sockets) peers_.push_back({socket, {}, {}, {}, {}});
  }
  ~SocketCommunicator() override { hang_up(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void abort(std::string_view) override { hang_up(); }

 protected:
  std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) override {
    Outgoing message{++last_number_, {}, bytes, 0};
    const Header header{bytes.size(), tag, 0};
    std::memcpy(message.header.data(), &header, sizeof header);
    peer(to).outgoing.push_back(message);
    return last_number_;
  }
  std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) override {
    peer(from).receives.push_back({++last_number_, tag, bytes});
    return last_number_;
  }
  bool poll(std::uint64_t number) override {
    for (Peer& other : peers_) {
      flush(other);
      read(other);
    }
    for (int from = 0; from < size(); ++from) {
      Peer& other = peer(from);
      for (const Outgoing& message : other.outgoing)
        if (message.number == number) return check_alive(from);
      for (auto receive = other.receives.begin(); receive != other.receives.end(); ++receive)
        if (receive->number == number) return take(from, receive);
    }
    return true;  // a sent one that has left its queue
  }
  void cancel(std::uint64_t number) noexcept override {
    for (Peer& other : peers_) {
      std::erase_if(other.receives, [&](const Receive& r) { return r.number == number; });
      // Half a message would be read as the beginning of the next.
      for (const Outgoing& m : other.outgoing)
        if (m.number == number && m.written != 0) close(other);
      std::erase_if(other.outgoing, [&](const Outgoing& m) { return m.number == number; });
    }
  }

 private:
  struct Header {
    std::uint64_t bytes;
    std::int32_t tag, unused;
  };
  struct Outgoing {
    std::uint64_t number;
    std::array<std::byte, sizeof(Header)> header;
    std::span<const std::byte> bytes;
    std::size_t written;  // of header and bytes
  };
  struct Receive {
    std::uint64_t number;
    int tag;
    std::span<std::byte> bytes;
  };
  struct Peer {
    int socket;  // -1: gone
    std::deque<Outgoing> outgoing;
    std::deque<Receive> receives;
    std::deque<std::pair<int, std::vector<std::byte>>> arrived;  // tag and bytes
    std::vector<std::byte> unread;  // of a message that has not come whole
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  static void close(Peer& other) {
    if (other.socket >= 0) ::close(std::exchange(other.socket, -1));
  }
  void hang_up() {
    for (Peer& other : peers_) close(other);
  }
  bool check_alive(int rank) {
    if (peer(rank).socket < 0) lost(rank, "connection closed");
    return false;
  }
  // Each of several receives with the same tag waits for a message of its own.
  bool take(int from, std::deque<Receive>::iterator receive) {
    Peer& other = peer(from);
    auto before = std::count_if(other.receives.begin(), receive,
                                [&](const Receive& r) { return r.tag == receive->tag; });
    auto message = other.arrived.begin();
    for (; message != other.arrived.end(); ++message)
      if (message->first == receive->tag && before-- == 0) break;
    if (message == other.arrived.end()) return check_alive(from);
    const std::vector<std::byte>& bytes = message->second;
    if (bytes.size() != receive->bytes.size())
      wrong_size(from, rank_, receive->tag, bytes.size(), receive->bytes.size());
    std::copy(bytes.begin(), bytes.end(), receive->bytes.begin());
    other.arrived.erase(message);
    other.receives.erase(receive);
    return true;
  }
  static void flush(Peer& other) {
    while (!other.outgoing.empty() && other.socket >= 0) {
      Outgoing& message = other.outgoing.front();
      std::span<const std::byte> part = message.header;
      if (message.written < part.size())
        part = part.subspan(message.written);
      else
        part = message.bytes.subspan(message.written - part.size());
      const auto written =
          ::send(other.socket, part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (written < 0 && errno != EAGAIN && errno != EINTR) close(other);
      if (written < 0) return;
      message.written += static_cast<std::size_t>(written);
      if (message.written == message.header.size() + message.bytes.size())
        other.outgoing.pop_front();
    }
  }
  static void read(Peer& other) {
    std::array<std::byte, 65536> piece;
    while (other.socket >= 0) {
      const auto count = ::recv(other.socket, piece.data(), piece.size(), MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count <= 0) return close(other);
      other.unread.insert(other.unread.end(), piece.begin(), piece.begin() + count);
      Header header;
      while (other.unread.size() >= sizeof header) {
        std::memcpy(&header, other.unread.data(), sizeof header);
        const auto begin = other.unread.begin() + sizeof header;
        if (other.unread.size() - sizeof header < header.bytes) break;
        const auto end = begin + static_cast<std::ptrdiff_t>(header.bytes);
        other.arrived.emplace_back(header.tag, std::vector(begin, end));
        other.unread.erase(other.unread.begin(), end);
      }
    }
  }

  int rank_;
  std::uint64_t last_number_ = 0;
  std::vector<Peer> peers_;
};

}  // namespace soma_test
