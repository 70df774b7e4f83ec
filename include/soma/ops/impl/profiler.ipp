#pragma once
// The functions of profiler.hpp.

#include <soma/ops/profiler.hpp>

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

SOMA_INLINE double ProfileEvent::seconds() const { return static_cast<double>(end - begin) * 1e-9; }

SOMA_INLINE void add_profile_row(std::vector<ProfileRow>& rows, const ProfileRow& more) {
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const ProfileRow& other) { return other.name == more.name; });
  if (row == rows.end()) row = rows.insert(row, ProfileRow{more.name});
  row->calls += more.calls;
  row->seconds += more.seconds;
  row->operations += more.operations;
  row->bytes += more.bytes;
}

SOMA_INLINE Profiler::Profiler(Context& context, std::size_t most_events)
    : context_(context),
      inner_(context.device()),
      most_events_(most_events),
      began_(monotonic_nanoseconds()) {
  context_.set_device(this);
}

SOMA_INLINE Profiler::~Profiler() { context_.set_device(inner_); }

SOMA_INLINE void Profiler::run(const Operator& op, const OperatorCall& call) {
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

SOMA_INLINE std::string Profiler::name() const {
  return inner_ != nullptr ? inner_->name() : Device::name();
}

SOMA_INLINE double Profiler::seconds_so_far() const {
  return static_cast<double>(monotonic_nanoseconds() - began_) * 1e-9;
}

SOMA_INLINE std::vector<ProfileRow> Profiler::rows() const { return sorted(rows_); }

SOMA_INLINE std::string Profiler::table() const { return table(rows_, seconds_so_far()); }

SOMA_INLINE std::string Profiler::table(const std::vector<ProfileRow>& rows, double all) {
  std::string text = line("operator", "calls", "ms", "%", "GFLOP/s", "GB/s");
  double known = 0;
  for (const ProfileRow& row : sorted(rows)) {
    known += row.seconds;
    text += line(row.name, std::to_string(row.calls), soma::fixed(row.seconds * 1e3, 2),
                 soma::fixed(100 * row.seconds / all, 1),
                 row.operations == 0 ? "-" : soma::fixed(row.operations / row.seconds * 1e-9, 0),
                 soma::fixed(row.bytes / row.seconds * 1e-9, 1));
  }
  text += line("between operators", "", soma::fixed((all - known) * 1e3, 2),
               soma::fixed(100 * (all - known) / all, 1), "", "");
  return text + line("all", "", soma::fixed(all * 1e3, 2), "100.0", "", "");
}

SOMA_INLINE std::vector<ProfileRow> Profiler::sorted(std::vector<ProfileRow> rows) {
  std::sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name;
  });
  return rows;
}

SOMA_INLINE double Profiler::bytes_of(const Operator& op, const OperatorCall& call) {
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

SOMA_INLINE std::string Profiler::line(std::string_view name, const std::string& calls,
                                       const std::string& time, const std::string& share,
                                       const std::string& gflops, const std::string& rate) {
  char text[160];
  std::snprintf(text, sizeof text, "%-26.*s %7s %10s %6s %8s %7s\n",
                static_cast<int>((std::min)(name.size(), std::size_t{60})), name.data(),
                calls.c_str(), time.c_str(), share.c_str(), gflops.c_str(), rate.c_str());
  return text;
}

}  // namespace SOMA_NAMESPACE
