// A network with a rate and a delay between network namespaces of one machine, also where the
// kernel's own limits (tc netem) are missing:
//
//   build/release/bin/limited_link --rate 1gbit --delay 1ms one two
//
// Each namespace gets an interface (TAP), and this program is the switch between them. A frame
// takes its place on the cable of its sender, then on that of its receiver, and arrives `delay`
// later. Frames of TCP come as the sender's stack makes them, up to 64 KiB long, which spares the
// cores, and are charged for the packets and headers that a network card would make of them: a
// connection carries 94 % of the rate, as on Ethernet.

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

struct Options {
  double bits_per_second = 0;       // 0: no limit
  double delay = 0, queue = 100e6;  // nanoseconds
  std::string interface = "eth0";
  std::vector<std::string> namespaces{};
};

void add_options(CLI::App& app, Options& options) {
  using Number = CLI::AsNumberWithUnit;
  const auto units = Number::Options(Number::CASE_SENSITIVE | Number::UNIT_REQUIRED);
  Number rate(std::map<std::string, double>{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}}, units);
  Number time(std::map<std::string, double>{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}}, units);
  rate.description("");  // the help texts name the units
  time.description("");
  const CLI::Validator minute = CLI::Range(0.0, 60e9).description("");
  app.add_option("namespaces", options.namespaces, "of ip netns, two or more")
      ->required()
      ->expected(2, 1000)
      ->type_name("NAMESPACE");
  app.add_option("--rate", options.bits_per_second,
                 "of each cable in each direction: 1gbit, 100mbit, 64kbit; default: no limit")
      ->transform(rate)
      ->check(CLI::Range(1e3, 1e15).description(""))
      ->type_name("RATE");
  app.add_option("--delay", options.delay,
                 "from one namespace to another: 1ms, 50us, 0.1s; default: 0ms")
      ->transform(time)
      ->check(minute)
      ->type_name("TIME");
  app.add_option("--queue", options.queue,
                 "a frame that would wait longer for its cable is dropped; default: 100ms")
      ->transform(time)
      ->check(minute)
      ->type_name("TIME");
  app.add_option("--interface", options.interface, "in each namespace")
      ->check([](const std::string& name) {
        return !name.empty() && name.size() < IFNAMSIZ ? "" : "no name of an interface: " + name;
      })
      ->capture_default_str()
      ->type_name("NAME");
}

// virtio_net_hdr; its header is none for C++.
struct Offload {
  std::uint8_t flags = 0;
  std::uint8_t kind = 0;  // 0: one packet
  std::uint16_t headers = 0;
  std::uint16_t segment = 0;    // payload of the packets that it stands for
  std::uint16_t transport = 0;  // where the header of TCP begins
  std::uint16_t checksum = 0;
};
static_assert(sizeof(Offload) == 10);

class File {
 public:
  File(const std::string& path, int flags) : number_(open(path.c_str(), flags | O_CLOEXEC)) {
    if (number_ < 0) fail(path);
  }
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File& operator=(File&&) = delete;
  ~File() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// One direction of a cable: one frame after the other.
class Lane {
 public:
  // When a frame that could start at `ready` does; nothing if it would wait for too long.
  std::optional<Time> take(Time ready, Nanoseconds takes, Nanoseconds queue) {
    const Time start = (std::max)(ready, free_);
    if (start - ready > queue) return std::nullopt;
    free_ = start + takes;
    return start;
  }

 private:
  Time free_{};
};

using Bytes = std::unique_ptr<std::byte[]>;

struct Frame {
  Time arrives{};
  Bytes bytes{};  // as the TAP has it: an Offload, then Ethernet
  std::size_t size = 0;
};

constexpr std::size_t most_bytes = sizeof(Offload) + 14 + 4 + 65536;
using Address = std::array<std::byte, 6>;

class Port {
 public:
  Port(const std::string& name, const std::string& interface) : file_(open_in(name)) {
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(number(), TUNSETIFF, &request) != 0) fail(interface + " in " + name);
    int header = sizeof(Offload);
    if (ioctl(number(), TUNSETVNETHDRSZ, &header) != 0) fail("headers of " + interface);
    // Without: every packet of TCP would come by itself, its checksum made.
    constexpr unsigned whole = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    if (ioctl(number(), TUNSETOFFLOAD, whole) != 0) fail("offload of " + interface);
    if (ioctl(number(), SIOCGIFHWADDR, &request) != 0) fail("address of " + interface);
    std::memcpy(address.data(), request.ifr_hwaddr.sa_data, address.size());
  }

  int number() const { return file_.number(); }

  Address address{};
  Lane up{}, down{};  // from the namespace, to it
  std::deque<Frame> coming{};

 private:
  // A TAP belongs to the namespace in which its file was opened.
  static File open_in(const std::string& name) {
    const File own("/proc/self/ns/net", O_RDONLY);
    const File other(name.find('/') == std::string::npos ? "/run/netns/" + name : name, O_RDONLY);
    if (setns(other.number(), CLONE_NEWNET) != 0) fail("namespace " + name);
    File tap("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (setns(own.number(), CLONE_NEWNET) != 0) fail("the namespace of this program");
    return tap;
  }
  File file_;
};

// The bytes of a frame on an Ethernet cable, cut into packets: each packet has the headers, a
// preamble, a check sequence and a gap.
std::size_t bytes_on_cable(const std::byte* bytes, std::size_t size) {
  constexpr std::size_t around = 8 + 4 + 12, least = 60;
  Offload header;
  std::memcpy(&header, bytes, sizeof header);
  const std::byte* frame = bytes + sizeof header;
  const std::size_t length = size - sizeof header;
  // Byte 12 of TCP's header has its length in words of four, in the upper half.
  const std::size_t tcp = header.transport;
  if (header.kind == 0 || header.segment == 0 || tcp + 20 > length)
    return (std::max)(length, least) + around;
  const std::size_t headers = tcp + 4 * (std::to_integer<std::size_t>(frame[tcp + 12]) >> 4);
  const std::size_t payload = length - (std::min)(headers, length);
  const std::size_t packets = (payload + header.segment - 1) / header.segment;
  return payload + packets * (headers + around);
}

class Switch {
 public:
  explicit Switch(const Options& options)
      : bits_per_second_(options.bits_per_second),
        delay_(nanoseconds(options.delay)),
        queue_(nanoseconds(options.queue)) {
    for (const std::string& name : options.namespaces) ports_.emplace_back(name, options.interface);
  }

  void run(const volatile std::sig_atomic_t& stop, const sigset_t& while_waiting) {
    std::vector<pollfd> files;
    for (const Port& port : ports_)
      files.push_back({.fd = port.number(), .events = POLLIN, .revents = 0});
    while (stop == 0) {
      for (std::size_t i = 0; i < files.size(); ++i)
        if (files[i].revents != 0) read_all(ports_[i]);
      const std::optional<Time> next = deliver();
      timespec left{};
      if (next) {
        const auto wait = std::max<Nanoseconds>(Nanoseconds(0), *next - Clock::now()).count();
        left = {.tv_sec = wait / 1'000'000'000, .tv_nsec = wait % 1'000'000'000};
      }
      if (ppoll(files.data(), files.size(), next ? &left : nullptr, &while_waiting) < 0 &&
          errno != EINTR)
        fail("waiting");
    }
  }

  void print() const {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    std::printf("carried %.1f MB in %llu frames, dropped %llu, used a core for %.2f s\n",
                static_cast<double>(carried_bytes_) * 1e-6, carried_, dropped_,
                static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec));
  }

 private:
  void read_all(Port& from) {
    for (int frames = 0; frames < 64; ++frames) {  // then the others, and what is due
      if (!buffer_) buffer_ = spare();
      const ssize_t got = read(from.number(), buffer_.get(), most_bytes);
      if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == EIO)) return;  // EIO: down
      if (got < 0) fail("reading from a namespace");
      const auto size = static_cast<std::size_t>(got);
      if (size >= sizeof(Offload) + 14) forward(from, size);
    }
  }

  // Forwards the frame in buffer_.
  void forward(Port& from, std::size_t size) {
    const double bits = 8.0 * static_cast<double>(bytes_on_cable(buffer_.get(), size));
    const double rate = bits_per_second_;
    const Nanoseconds takes(rate > 0 ? static_cast<std::int64_t>(bits / rate * 1e9) : 0);
    const std::optional<Time> leaves = from.up.take(Clock::now(), takes, queue_);
    if (!leaves) {
      ++dropped_;
      return;
    }
    Address target{};
    std::memcpy(target.data(), buffer_.get() + sizeof(Offload), target.size());
    std::vector<Port*> ports;  // everyone, where it is for nobody in particular
    for (Port& port : ports_)
      if (&port != &from && port.address == target) ports = {&port};
    if (ports.empty())
      for (Port& port : ports_)
        if (&port != &from) ports.push_back(&port);
    for (Port* port : ports) {
      const std::optional<Time> starts = port->down.take(*leaves, takes, queue_);
      if (!starts) {
        ++dropped_;
        continue;
      }
      port->coming.push_back({.arrives = *starts + takes + delay_,
                              .bytes = bytes_to_keep(size, ports.size() == 1),
                              .size = size});
      ++carried_;
      carried_bytes_ += size - sizeof(Offload);
    }
  }

  // Small frames are copied, so that they do not keep a large buffer.
  Bytes bytes_to_keep(std::size_t size, bool only) {
    constexpr std::size_t small = 2048;
    if (only && size > small) return std::move(buffer_);
    auto copy = std::make_unique_for_overwrite<std::byte[]>(size > small ? most_bytes : size);
    std::memcpy(copy.get(), buffer_.get(), size);
    return copy;
  }
  Bytes spare() {
    if (spare_.empty()) return std::make_unique_for_overwrite<std::byte[]>(most_bytes);
    Bytes bytes = std::move(spare_.back());
    spare_.pop_back();
    return bytes;
  }

  // Delivers all frames that are due. Returns the time of the next one.
  std::optional<Time> deliver() {
    const Time now = Clock::now();
    std::optional<Time> next;
    for (Port& port : ports_) {
      for (; !port.coming.empty() && port.coming.front().arrives <= now; port.coming.pop_front()) {
        Frame& frame = port.coming.front();
        // An interface that is down, or has no memory left, takes nothing: as a cable that is out.
        if (write(port.number(), frame.bytes.get(), frame.size) < 0) ++dropped_;
        if (frame.size > 2048 && spare_.size() < 64) spare_.push_back(std::move(frame.bytes));
      }
      if (port.coming.empty()) continue;
      const Time arrives = port.coming.front().arrives;
      next = next ? (std::min)(*next, arrives) : arrives;
    }
    return next;
  }

  static Nanoseconds nanoseconds(double count) {
    return Nanoseconds(static_cast<std::int64_t>(count));
  }

  double bits_per_second_;
  Nanoseconds delay_, queue_;
  std::deque<Port> ports_{};
  Bytes buffer_{};              // the frame that was read last
  std::vector<Bytes> spare_{};  // buffers of most_bytes each
  unsigned long long carried_ = 0, carried_bytes_ = 0, dropped_ = 0;
};

volatile std::sig_atomic_t stop_requested = 0;

void run(const Options& options) {
  // The signals are let in while the switch waits only, so that none is missed before.
  sigset_t ends, before;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT}) {
    sigaddset(&ends, number);
    struct sigaction action {};
    action.sa_handler = [](int) { stop_requested = 1; };
    if (sigaction(number, &action, nullptr) != 0) fail("signals");
  }
  if (sigprocmask(SIG_BLOCK, &ends, &before) != 0) fail("signals");
  sigdelset(&before, SIGTERM);
  sigdelset(&before, SIGINT);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a script that is killed leaves no network behind

  Switch network(options);
  // A cable does not wait for a core. Where that is not allowed, it does.
  sched_param priority{};
  priority.sched_priority = 1;
  sched_setscheduler(0, SCHED_FIFO, &priority);
  std::puts("ready");
  std::fflush(stdout);
  network.run(stop_requested, before);
  network.print();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Connects network namespaces by a switch whose cables have a rate and a delay. Makes an "
      "interface in each; prints \"ready\" then. Addresses are given by others. Ends, and takes "
      "the "
      "interfaces along, on SIGTERM or SIGINT.",
      "limited_link");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    run(options);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "limited_link: %s\n", error.what());
    return 1;
  }
}
