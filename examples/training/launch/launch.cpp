#include "training/launch/launch.hpp"

#include "training/launch/surroundings.hpp"
#include "training/stop.hpp"

#include <soma/base/error.hpp>
#include <soma/parallel/partition.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <system_error>
#include <thread>

#include <sched.h>
#include <unistd.h>

#ifdef SOMA_TRAINING_MPI
#include <soma/mpi.hpp>
#endif

namespace {

[[noreturn]] void refuse(const Surroundings& around, const std::string& what,
                         const std::vector<std::string>& command) {
  throw LaunchError(around.source + " names " + std::to_string(around.processes) +
                    " processes, and " + what +
                    "; start them with: " + mpirun_line(around, command));
}

// After a signal that ends ranks, the others wait this long for rank 0, which reports it and ends
// them.
constexpr std::chrono::seconds time_of_rank_0{3};

}  // namespace

#ifdef SOMA_TRAINING_MPI

namespace {

// The cores that a process may use; 0 means this process. The set holds 1024 cores: on a larger
// machine the call fails, and all 1024 count.
cpu_set_t allowed_cores(pid_t process) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(process, sizeof cores, &cores) != 0)
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
      if (static_cast<long>(core) < sysconf(_SC_NPROCESSORS_ONLN)) CPU_SET(core, &cores);
  return cores;
}

struct Share {
  int threads = 1;  // threads of this rank
  int used = 0;     // cores that any rank on this machine may use
};

// Ranks that may use the same core share it. A rank that is bound to cores of its own has all of
// these.
Share share_of(const cpu_set_t& own, const std::vector<cpu_set_t>& local) {
  double cores = 0;
  Share share;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    const auto users = std::count_if(local.begin(), local.end(), [&](const cpu_set_t& set) {
      return CPU_ISSET(core, &set) != 0;
    });
    share.used += users != 0 ? 1 : 0;
    if (CPU_ISSET(core, &own) != 0) cores += 1 / static_cast<double>(users);
  }
  share.threads = (std::max)(1, static_cast<int>(cores + 1e-6));
  return share;
}

// Ends the process, and so all ranks, unless it is destroyed within the time limit; a signal ends
// it at once. MPI_Init waits for ranks that never come, and knows neither limits nor signals.
class Watchdog {
 public:
  // `last_words` gets the error message.
  Watchdog(double seconds, bool first, std::function<void(const std::string&)> last_words)
      : seconds_(seconds), first_(first), last_words_(std::move(last_words)) {
    thread_ = std::thread([this] { watch(); });
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    bell_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch() {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    while (seconds_ == 0 || Clock::now() - begin < std::chrono::duration<double>(seconds_)) {
      if (bell_.wait_for(lock, std::chrono::milliseconds(50), [this] { return over_; })) return;
      if (!stop_requested.requested()) continue;
      if (!first_) std::this_thread::sleep_for(time_of_rank_0);
      last_words_("train: ended by a signal while it met the other ranks [cli.interrupted]");
      std::_Exit(1);
    }
    const soma::Error error(
        soma::error_id::parallel_timeout, "MPI_Init", "meeting the other ranks",
        "not over after " + std::to_string(static_cast<long long>(seconds_ * 1e3)) + " ms",
        "all ranks within --time-limit");
    last_words_(error.what());
    std::_Exit(1);
  }

  double seconds_;
  bool first_;
  std::function<void(const std::string&)> last_words_;
  std::mutex mutex_;
  std::condition_variable bell_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace

struct Launch::World {
  struct Silence final : std::streambuf {
    int_type overflow(int_type letter) override { return traits_type::not_eof(letter); }
    std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
  };

  soma::mpi::Environment environment{};
  soma::mpi::Communicator communicator;
  Silence silence{};

  // The message is written before all ranks end: MPI_Abort does not return.
  explicit World(Launch& launch)
      : communicator({.log = {&launch, [](void* self, soma::LogLevel, std::string_view message) {
                                static_cast<Launch*>(self)->write(message);
                              }}}) {}

  // The sets of cores of every rank on this machine.
  static std::vector<cpu_set_t> local_cores(const cpu_set_t& own) {
    using soma::mpi::check;
    MPI_Comm local = MPI_COMM_NULL;
    int size = 1;
    check("MPI_Comm_split_type",
          MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
    check("MPI_Comm_size", MPI_Comm_size(local, &size));
    std::vector<cpu_set_t> all(static_cast<std::size_t>(size));
    check("MPI_Allgather",
          MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, local));
    check("MPI_Comm_free", MPI_Comm_free(&local));
    return all;
  }
};

soma::Communicator* Launch::communicator() { return size_ > 1 ? &world_->communicator : nullptr; }

void Launch::join(const RankOptions& options, std::size_t shards,
                  const std::vector<std::string>& command) {
  const Surroundings around = look_around();
  const cpu_set_t own = allowed_cores(0);
  std::vector<cpu_set_t> local = {own};
  if (around.launcher) {
    const Watchdog watchdog(options.time_limit, around.first,
                            [this](const std::string& text) { write(text); });
    world_ = std::make_unique<World>(*this);
    rank_ = world_->communicator.rank();
    size_ = world_->communicator.size();
    local = World::local_cores(own);
  }
  if (size_ == 1 && around.processes > 1)
    refuse(around,
           around.launcher ? "MPI reports one (is the launcher of the MPI library that the program "
                             "was built with?)"
                           : "no MPI launcher has started this one",
           command);
  if (around.launcher) {
    const Share share = share_of(own, local);
    threads_ = share.threads;
    // mpirun binds each rank to one core or to some cores. mpirun itself is not bound, so its mask
    // shows all cores.
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
      const cpu_set_t all = allowed_cores(getppid());
      idle_cores_ = CPU_COUNT(&all) - share.used;
    }
  }
  if (size_ == 1) return;
  world_->communicator.set_time_limit(options.time_limit);
  // All ranks know the mistake; rank 0 reports it, and ends the others while they wait.
  try {
    if (!options.has_pipeline()) soma::check_ranks(size_, shards);  // train() checks pipelines
  } catch (const soma::Error&) {
    if (rank_ != 0) world_->communicator.barrier();
    throw;
  }
  if (rank_ == 0) return;
  out_ = std::cout.rdbuf(&world_->silence);
  error_ = std::cerr.rdbuf(&world_->silence);
}

void Launch::fail(const std::string& message, int code) {
  if (size_ == 1) return write(message);
  write("rank " + std::to_string(rank_) + ": " + message);
  MPI_Abort(MPI_COMM_WORLD, code);
}

#else

struct Launch::World {};

soma::Communicator* Launch::communicator() { return nullptr; }

void Launch::join(const RankOptions&, std::size_t, const std::vector<std::string>& command) {
  const Surroundings around = look_around();
  if (around.processes > 1)
    refuse(around,
           "this program was built without MPI (on Debian: apt-get install libopenmpi-dev "
           "openmpi-bin, and build it again)",
           command);
}

void Launch::fail(const std::string& message, int) { write(message); }

#endif

void check_alone(const std::string& command) {
  const Surroundings around = look_around();
  if (around.processes > 1)
    throw LaunchError(around.source + " names " + std::to_string(around.processes) +
                      " processes, and " + command + " needs a single process: start it by itself");
}

Launch::Launch() = default;

Launch::~Launch() {
  if (out_ != nullptr) std::cout.rdbuf(out_);
  if (error_ != nullptr) std::cerr.rdbuf(error_);
}

void Launch::warn(std::ostream& out) const {
  if (idle_cores_ > 0)
    out << "cores of this machine that no rank uses: " << idle_cores_
        << " (mpirun --bind-to none gives all cores to the ranks)\n";
}

void Launch::give_up(const std::string& message) {
  if (rank_ != 0) std::this_thread::sleep_for(time_of_rank_0);
  fail(message, 1);
}

void Launch::tell(const std::string& message) {
  if (rank_ == 0) write(message);
}

void Launch::leave() {
  if (soma::Communicator* others = communicator(); others != nullptr) others->barrier();
}

void Launch::write(std::string_view message) {
  std::string line;  // a library's message may have line breaks
  for (const char letter : message) line += letter == '\n' || letter == '\r' ? ' ' : letter;
  line.erase(line.find_last_not_of(' ') + 1);
  line += '\n';
  if (error_ != nullptr) std::cerr.rdbuf(error_);
  std::cerr << line << std::flush;  // in one piece, because other ranks write, too
  if (failure_file_.empty()) return;
  std::error_code problem;  // ignored: opening the file reports the error
  std::filesystem::create_directory(std::filesystem::path(failure_file_).parent_path(), problem);
  std::ofstream(failure_file_) << line;
}
