#pragma once
// A profile as a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open.

#include <soma/io/atomic_file.hpp>
#include <soma/ops/profiler.hpp>

#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace soma {

// A slice for every call in the profiler, with its shapes, GFLOP/s and GB/s. Errors file.write; an
// old file stays until the new one is complete.
inline void write_trace(std::string_view path, const Profiler& profiler) {
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

}  // namespace soma
