#pragma once
// A profile as a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open.

#include <soma/io/atomic_file.hpp>
#include <soma/ops/profiler.hpp>

#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE {

// A slice for every call in the profiler, with its shapes, GFLOP/s and GB/s. Errors file.write; an
// old file stays until the new one is complete.
void write_trace(std::string_view path, const Profiler& profiler);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/trace.ipp>
#endif
