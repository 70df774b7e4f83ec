#pragma once
// The functions of trace.hpp.

#include <soma/io/trace.hpp>

#include <soma/io/atomic_file.hpp>
#include <soma/ops/profiler.hpp>

#include <nlohmann/json.hpp>

#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE void write_trace(std::string_view path, const Profiler& profiler) {
  const auto microseconds = [&](std::int64_t time) {
    return static_cast<double>(time - profiler.began()) * 1e-3;
  };
  nlohmann::json events = nlohmann::json::array();
  const auto name_of = [&](const char* kind, const char* name) {
    events.push_back(
        {{"ph", "M"}, {"pid", 1}, {"tid", 1}, {"name", kind}, {"args", {{"name", name}}}});
  };
  name_of("process_name", "soma");
  name_of("thread_name", "operators");
  for (const ProfileEvent& event : profiler.events()) {
    nlohmann::json arguments = {{"inputs", event.shapes}};
    if (event.end != event.begin) {
      if (event.operations != 0) arguments["GFLOP/s"] = event.operations / event.seconds() * 1e-9;
      arguments["GB/s"] = event.bytes / event.seconds() * 1e-9;
    }
    events.push_back({{"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"cat", "operator"},
                      {"name", event.name},
                      {"ts", microseconds(event.begin)},
                      {"dur", static_cast<double>(event.end - event.begin) * 1e-3},
                      {"args", std::move(arguments)}});
  }
  AtomicFile file("write_trace", path);
  file.write(nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace));
  file.commit();
}

}  // namespace SOMA_NAMESPACE
