// Traces of a profile, as their viewers read them.

#include <soma/io/trace.hpp>
#include <soma/ops/all.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstdio>
#include <fstream>
#include <string>

#include <unistd.h>

using namespace soma;

TEST_CASE("a trace is JSON that viewers of traces read", "[unit][profiler]") {
  auto context = make_context({.threads = 1});
  const std::string path = "/tmp/soma_trace_" + std::to_string(getpid()) + ".json";
  Profiler profiler(context);
  const Tensor x = soma_test::random_tensor(context, {6, 4}, "x");
  const Tensor w = soma_test::random_tensor(context, {3, 4}, "w");
  run(context, ops::linear, LinearSetting{}, {x, w});
  run(context, ops::unary<Unary::gelu>, {}, {x});
  write_trace(path, profiler);
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::remove(path.c_str());
  std::size_t slices = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++slices;
    CHECK(event.at("dur").get<double>() >= 0);
    CHECK(event.at("ts").get<double>() >= 0);
    if (event.at("name") == "linear")
      CHECK(event.at("args").at("inputs") == "[6, 4] fp32, [3, 4] fp32");
  }
  CHECK(slices == profiler.events().size());
  CHECK(soma_test::id_of([&] { write_trace("/nowhere/trace.json", profiler); }) == "file.write");
}
