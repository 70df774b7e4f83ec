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
#include <soma/runtime/clock.hpp>

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

namespace soma {

// One call of an operator. Times as in monotonic_nanoseconds().
struct ProfileEvent {
  std::string_view name;  // the operator's, which has to live as long
  std::int64_t begin = 0, end = 0;
  double operations = 0;  // operations of its matrix products
  // Bytes of inputs and outputs, each counted once, or twice if updated; an embedding table counts
  // as a whole.
  double bytes = 0;
  std::string shapes;  // shapes of the inputs: "[720, 128] fp32, [512, 128] fp32"

  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

// All calls of one operator.
struct ProfileRow {
  std::string_view name;
  std::size_t calls = 0;
  double seconds = 0, operations = 0, bytes = 0;
};

// Adds calls to the row of the same operator.
inline void add_profile_row(std::vector<ProfileRow>& rows, const ProfileRow& more) {
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const ProfileRow& other) { return other.name == more.name; });
  if (row == rows.end()) row = rows.insert(row, ProfileRow{more.name});
  row->calls += more.calls;
  row->seconds += more.seconds;
  row->operations += more.operations;
  row->bytes += more.bytes;
}

// Used by one thread at a time, as other devices of a context. Keeps `most_events` calls, and only
// counts later ones.
class Profiler final : public Device {
 public:
  // Becomes the context's device until its end.
  explicit Profiler(Context& context, std::size_t most_events = std::size_t{1} << 20)
      : context_(context),
        inner_(context.device()),
        most_events_(most_events),
        began_(monotonic_nanoseconds()) {
    context_.set_device(this);
  }
  ~Profiler() override { context_.set_device(inner_); }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void run(const Operator& op, const OperatorCall& call) override {
    ProfileEvent event;
    event.name = op.name;
    event.begin = monotonic_nanoseconds();
    ++depth_;
    if (inner_ != nullptr)
      inner_->run(op, call);
    else
      op.host(call);
    --depth_;
    event.end = monotonic_nanoseconds();
    // Views cost nothing and would only add rows; operators that an operator runs are part of it.
    if (op.makes_views || depth_ != 0) return;
    if (op.operations != nullptr) event.operations = op.operations(call);
    event.bytes = bytes_of(op, call);
    add_profile_row(rows_, {event.name, 1, event.seconds(), event.operations, event.bytes});
    if (events_.size() == most_events_) return;
    for (const Tensor& input : call.inputs)
      if (input.defined())
        event.shapes.append(event.shapes.empty() ? "" : ", ").append(input.describe());
    events_.push_back(std::move(event));
  }

  std::string name() const override { return inner_ != nullptr ? inner_->name() : Device::name(); }

  std::span<const ProfileEvent> events() const { return events_; }
  // The time when profiling began.
  std::int64_t began() const { return began_; }
  double seconds_so_far() const {
    return static_cast<double>(monotonic_nanoseconds() - began_) * 1e-9;
  }

  // The rows of operators, those with the longest time first.
  std::vector<ProfileRow> rows() const { return sorted(rows_); }

  // The rows as text: calls, time, share of the time since the begin, GFLOP/s, GB/s.
  std::string table() const { return table(rows_, seconds_so_far()); }
  // The same for any rows, and for the seconds that all of them are a share of.
  static std::string table(const std::vector<ProfileRow>& rows, double all) {
    std::string text = line("operator", "calls", "ms", "%", "GFLOP/s", "GB/s");
    double known = 0;
    for (const ProfileRow& row : sorted(rows)) {
      known += row.seconds;
      text +=
          line(row.name, std::to_string(row.calls), soma::fixed(row.seconds * 1e3, 2),
               soma::fixed(100 * row.seconds / all, 1),
               row.operations == 0 ? "-" : soma::fixed(row.operations / row.seconds * 1e-9, 0),
               soma::fixed(row.bytes / row.seconds * 1e-9, 1));
    }
    text += line("between operators", "", soma::fixed((all - known) * 1e3, 2),
                 soma::fixed(100 * (all - known) / all, 1), "", "");
    return text + line("all", "", soma::fixed(all * 1e3, 2), "100.0", "", "");
  }

 private:
  static std::vector<ProfileRow> sorted(std::vector<ProfileRow> rows) {
    std::sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
      return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name;
    });
    return rows;
  }
  static double bytes_of(const Operator& op, const OperatorCall& call) {
    const auto bytes = [](const Tensor& tensor) {
      return tensor.defined() ? static_cast<double>(tensor.elements() * size_of(tensor.dtype()))
                              : 0.0;
    };
    double sum = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      // An operator without outputs writes its inputs, except a gradient's values and rows.
      const bool updated = op.outputs == 0 ? i == 0 || i > 2 : (op.writes_inputs >> i & 1) != 0;
      sum += bytes(call.inputs[i]) * (updated ? 2 : 1);
    }
    for (const Tensor& output : call.outputs) sum += bytes(output);
    return sum;
  }

  static std::string line(std::string_view name, const std::string& calls, const std::string& time,
                          const std::string& share, const std::string& gflops,
                          const std::string& rate) {
    char text[160];
    std::snprintf(text, sizeof text, "%-26.*s %7s %10s %6s %8s %7s\n",
                  static_cast<int>((std::min)(name.size(), std::size_t{60})), name.data(),
                  calls.c_str(), time.c_str(), share.c_str(), gflops.c_str(), rate.c_str());
    return text;
  }

  Context& context_;
  Device* inner_;
  std::size_t most_events_;
  std::int64_t began_;
  int depth_ = 0;
  std::vector<ProfileEvent> events_;
  std::vector<ProfileRow> rows_;
};

}  // namespace soma
