#pragma once
// Profiler: measures the time of a program, operator by operator. It is a device that lets the
// present device, or the host's kernels, run everything, and notes the begin and end of each call.
// So results do not change.
//
//   {
//     soma::Profiler profiler(context);
//     ... a few steps ...
//     std::cout << profiler.table();
//   }
//
// Gradients of operators are operators. Work between operators, such as gradient norms, is in no
// row. Opt-in: <soma/io/trace.hpp> writes the calls for a viewer.

#include <soma/base/fixed.hpp>
#include <soma/ops/device.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// One call of an operator. Times as in monotonic_nanoseconds().
struct ProfileEvent {
  std::string_view name;  // the operator's, which has to live as long
  std::int64_t begin = 0, end = 0;
  double operations = 0;  // operations of its matrix products
  // Bytes of inputs and outputs, each counted once, or twice if updated; an embedding table counts
  // as a whole.
  double bytes = 0;
  std::string shapes;  // shapes of the inputs: "[720, 128] fp32, [512, 128] fp32"

  double seconds() const;
};

// All calls of one operator.
struct ProfileRow {
  std::string_view name;
  std::size_t calls = 0;
  double seconds = 0, operations = 0, bytes = 0;
};

// Adds calls to the row of the same operator.
void add_profile_row(std::vector<ProfileRow>& rows, const ProfileRow& more);

// Used by one thread at a time, as other devices of a context. Keeps `most_events` calls, and only
// counts later ones.
class Profiler final : public Device {
 public:
  // Becomes the context's device until its end.
  explicit Profiler(Context& context, std::size_t most_events = std::size_t{1} << 20);
  SOMA_INLINE ~Profiler() override;
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  SOMA_INLINE void run(const Operator& op, const OperatorCall& call) override;

  SOMA_INLINE std::string name() const override;

  std::span<const ProfileEvent> events() const { return events_; }
  // The time when profiling began.
  std::int64_t began() const { return began_; }
  double seconds_so_far() const;

  // The rows of operators, those with the longest time first.
  std::vector<ProfileRow> rows() const;

  // The rows as text: calls, time, share of the time since the begin, GFLOP/s, GB/s.
  std::string table() const;
  // The same for any rows, and for the seconds that all of them are a share of.
  static std::string table(const std::vector<ProfileRow>& rows, double all);

 private:
  static std::vector<ProfileRow> sorted(std::vector<ProfileRow> rows);
  static double bytes_of(const Operator& op, const OperatorCall& call);

  static std::string line(std::string_view name, const std::string& calls, const std::string& time,
                          const std::string& share, const std::string& gflops,
                          const std::string& rate);

  Context& context_;
  Device* inner_;
  std::size_t most_events_;
  std::int64_t began_;
  int depth_ = 0;
  std::vector<ProfileEvent> events_;
  std::vector<ProfileRow> rows_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/profiler.ipp>
#endif
