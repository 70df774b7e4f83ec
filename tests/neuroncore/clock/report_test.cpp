// Reports and traces of records made by hand, and of a small program of a core.

#include "neuroncore/clock/records.hpp"

#include <soma/neuroncore/clock/report.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace soma_test;
using Catch::Matchers::WithinRel;
using soma::DType;

namespace {

constexpr nc::Machine machine = at_once();

// A record with names: two regions, one inside the other, and two calls of an operator.
struct Named {
  Named() : names(context.heap()) {
    names.regions.push_back({"layer", 0});
    names.regions.push_back({"norm <1>", 1});
    names.calls.push_back({"gelu"});
    names.calls.push_back({"gelu"});
    names.calls.push_back({"add"});
  }
  nc::Report report(const nc::ReportOptions& options = {}) const {
    return {record.all, names, machine, options};
  }
  soma::Context context = soma::make_context({.threads = 1});
  nc::RecordNames names;
  RecordBuilder record;
};

// A load, what the Vector engine makes of it, a store; then work that nobody waits for.
struct Chain : Named {
  Chain() {
    nc::Instruction& load = record.transfer(0, 128, 128 * 1024);
    load.call = 1;
    load.source = {"kernel.cpp", 10};
    load.sbuf_used = 4096;
    nc::Instruction& work = record.vector(512);
    work.after[4] = 1;
    work.call = 2;
    work.region = 2;
    work.source = {"kernel.cpp", 11};
    work.sbuf_used = 8192;
    work.psum_used = 2048;
    nc::Instruction& store = record.transfer(1, 128, 128 * 1024);
    store.after[1] = 1;
    store.call = 3;
    store.region = 1;
    store.direction = nc::Direction::store;
    record.matmul(128, 512, DType::bf16);
  }
};

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}
std::size_t widest(std::string_view text) {
  std::size_t widest = 0;
  while (!text.empty()) {
    const std::size_t end = (std::min)(text.find('\n'), text.size());
    if (!text.starts_with("advice") && !text.starts_with("warning"))
      widest = (std::max)(widest, end);
    text.remove_prefix((std::min)(end + 1, text.size()));
  }
  return widest;
}

// A number of an event: its text after "key":
double number(std::string_view event, std::string_view key) {
  const std::size_t at = event.find(std::string("\"") + std::string(key) + "\":");
  REQUIRE(at != event.npos);
  return std::stod(std::string(event.substr(at + key.size() + 3, 30)));
}
// The slices of a trace: row to start and end in ns.
std::map<int, std::vector<std::pair<double, double>>> slices(std::string_view trace) {
  std::map<int, std::vector<std::pair<double, double>>> rows;
  for (std::size_t at = trace.find("{\"ph\":\"X\""); at != trace.npos;
       at = trace.find("{\"ph\":\"X\"", at + 1)) {
    const std::string_view event = trace.substr(at, 400);
    const double start = number(event, "ts"), length = number(event, "dur");
    rows[static_cast<int>(number(event, "tid"))].push_back(
        {std::round(1e3 * start), std::round(1e3 * (start + length))});
  }
  return rows;
}
std::size_t total(const std::map<int, std::vector<std::pair<double, double>>>& rows) {
  std::size_t sum = 0;
  for (const auto& [row, all] : rows) sum += all.size();
  return sum;
}

}  // namespace

TEST_CASE("a report says what bounds a program", "[unit][neuroncore]") {
  const Chain named;
  const nc::Report report = named.report();
  const nc::Summary& summary = report.summary();
  const double load = 8 * 142, work = 1024 / 1.12, hop = 100 / 1.12;
  CHECK_THAT(report.ns(), WithinRel(1300 + load + hop + work + 1300 + load, 1e-9));
  const auto find = [&](std::string_view kind, std::string_view name) {
    for (const nc::Rank& rank : summary.ranks)
      if (rank.kind == kind && rank.name == name) return rank;
    return nc::Rank{};
  };
  CHECK_THAT(find("engine", "vector").path_ns, WithinRel(work, 1e-9));
  CHECK_THAT(find("queues", "dma queues").path_ns, WithinRel(2 * load, 1e-9));
  CHECK_THAT(find("wait", "start of transfers").path_ns, WithinRel(2600.0, 1e-9));
  CHECK_THAT(find("wait", "semaphore hops").path_ns, WithinRel(hop, 1e-9));
  // A region's time holds that of the regions inside it.
  CHECK_THAT(find("region", "layer/norm <1>").path_ns, WithinRel(hop + work, 1e-9));
  CHECK_THAT(find("region", "layer").path_ns, WithinRel(hop + work + 1300 + load, 1e-9));
  CHECK_THAT(find("operator", "gelu").path_ns, WithinRel(1300 + load + hop + work, 1e-9));
  CHECK(find("operator", "gelu").bound == "start of transfers");
  CHECK_THAT(find("line", "kernel.cpp:11").busy_ns, WithinRel(work, 1e-9));
  CHECK(find("engine", "tensor").instructions == 0);  // not on the path
  CHECK(std::is_sorted(summary.ranks.begin(), summary.ranks.end(),
                       [](const nc::Rank& a, const nc::Rank& b) { return a.path_ns > b.path_ns; }));
  // Engines, queues and waits are the whole path.
  double path = 0;
  for (const nc::Rank& rank : summary.ranks)
    if (rank.kind == "engine" || rank.kind == "queues" || rank.kind == "wait") path += rank.path_ns;
  CHECK_THAT(path, WithinRel(report.ns(), 1e-9));

  REQUIRE(summary.operators.size() == 2);
  CHECK(summary.operators[0].calls == 2);
  CHECK_THAT(summary.operators[0].ns, WithinRel(load + work, 1e-9));
  CHECK(summary.bytes_read == 128 * 1024);
  CHECK(summary.bytes_written == 128 * 1024);
  CHECK(summary.buffers == 256);
  CHECK(summary.mean_buffer == 1024);
  CHECK(summary.sbuf_peak == 8192);
  CHECK(summary.psum_peak == 2048);
  CHECK_THAT(summary.hfu, WithinRel(512 / 2.8 / report.ns(), 1e-9));
  CHECK_THAT(summary.balance, WithinRel(91750.4 / 410, 1e-9));
  CHECK_THAT(summary.intensity, WithinRel(2.0 * 128 * 128 * 512 / (256 * 1024), 1e-9));
  CHECK_THAT(summary.mbu, WithinRel(256 * 1024 / report.ns() / 410, 1e-9));
  CHECK_THAT(summary.dma_busy_ns, WithinRel(2 * load, 1e-9));
  // The Tensor engine's work comes first.
  CHECK(summary.lanes.front().lane == nc::lane_of(nc::Engine::tensor));
}

TEST_CASE("texts of a report keep to 100 columns and say that they are estimates",
          "[unit][neuroncore]") {
  Chain named;
  named.names.regions[1].name = std::string(300, 'x');
  const nc::Report report = named.report();
  for (const std::string& text :
       {report.text(), report.json(), report.text_timeline(), report.trace(), report.html()}) {
    CHECK_THAT(text, contains("estimate by published rules, not a bound"));
    CHECK_THAT(text, contains("docs/neuroncore.md"));
  }
  CHECK(widest(report.text()) <= 100);
  CHECK(widest(report.text_timeline()) <= 100);
  CHECK(count(report.text_timeline(), "\n") == 2 + 4);
  CHECK_THAT(report.text_timeline(), contains("vector        |  "));
  CHECK_THAT(named.report({.most_ranks = 2}).text(), contains("more\n"));
  CHECK(nc::Report({}, named.names, machine).text().find("nan") == std::string::npos);
  CHECK_NOTHROW(nc::Report({}, named.names, machine).html());
}

TEST_CASE("a report prints advice with its gain and its lines", "[unit][neuroncore]") {
  Named named;
  named.record.matmul(128, 512, DType::fp32).source = {"kernel.cpp", 7};
  CHECK_THAT(named.report().text(),
             contains("advice: saves 75.0 %: fp32 products") && contains("(kernel.cpp:7)\n"));
  CHECK_THAT(named.report().json(), contains("\"advice\":[\"saves 75.0 %: fp32 products"));
}

TEST_CASE("more device memory than there is warns", "[unit][neuroncore]") {
  const Chain named;
  CHECK_THAT(named.report({.hbm_in_use = machine.hbm_bytes + 1}).text(),
             contains("warning: 17179869185 bytes of device memory are in use, trn1 has "
                      "17179869184 for a core"));
  CHECK(named.report({.hbm_in_use = machine.hbm_bytes}).text().find("warning") ==
        std::string::npos);
}

TEST_CASE("a record whose names are missing is refused", "[unit][neuroncore]") {
  Chain named;
  named.record.all[0].call = 4;
  CHECK(id_of([&] { named.report(); }) == "neuroncore.record");
  named.record.all[0].call = 0;
  named.record.all[1].region = 3;
  CHECK(id_of([&] { named.report(); }) == "neuroncore.record");
  named.record.all[1].region = 0;
  named.names.regions[0].parent = 2;
  CHECK(id_of([&] { named.report(); }) == "neuroncore.record");
}

TEST_CASE("a trace has a row for each engine, queue and region", "[unit][neuroncore]") {
  const Chain named;
  const std::string trace = named.report().trace();
  for (const char* row : {"\"tensor\"", "\"vector\"", "\"dma queue 0\"", "\"dma queue 1\"",
                          "\"operators\"", "\"region layer\"", "\"region layer/norm \\u003c1>\""})
    CHECK_THAT(trace, contains(("\"thread_name\",\"args\":{\"name\":" + std::string(row)).c_str()));
  const auto rows = slices(trace);
  CHECK(rows.size() == 7);
  CHECK(total(rows) == 4 + 3 + 2);
  CHECK(count(trace, "\"ph\":\"s\"") == 2);  // the Vector engine, and the store
  CHECK(count(trace, "\"ph\":\"f\"") == 2);
  CHECK_THAT(trace, contains("\"SBUF, bytes a partition\",\"ts\":2.525"));
  CHECK_THAT(trace, contains("\"bytes\":8192"));
  CHECK_THAT(trace, contains("\"line\":\"kernel.cpp:11\""));
  CHECK_THAT(trace, contains("\"waited for\":\"semaphore: number 1 of dma queue 0\""));
}

TEST_CASE("slices of a row do not overlap, and no more than allowed are written",
          "[unit][neuroncore]") {
  Named named;
  named.record = random_record(9, 3000);
  for (std::size_t i = 0; i < named.record.all.size(); ++i) {
    named.record.all[i].region = static_cast<std::uint32_t>(i / 50 % 3);
    named.record.all[i].call = static_cast<std::uint32_t>(i / 1100) + 1;
  }
  for (const std::size_t most : {std::size_t{200'000}, std::size_t{500}, std::size_t{0}}) {
    const nc::Report report = named.report({.most_events = most});
    const std::string trace = report.trace();
    const auto rows = slices(trace);
    if (most == 200'000)
      CHECK(total(rows) > 3000);
    else
      CHECK(total(rows) == most);
    for (auto [row, all] : rows) {
      std::sort(all.begin(), all.end());
      for (std::size_t i = 1; i < all.size(); ++i) REQUIRE(all[i].first >= all[i - 1].second);
    }
    CHECK((trace.find("slices left out, the latest: ") != std::string::npos) == (most != 200'000));
    CHECK((report.html().find("slices left out") != std::string::npos) == (most != 200'000));
  }
}

TEST_CASE("the page carries everything with it", "[unit][neuroncore]") {
  const Chain named;
  const std::string page = named.report().html();
  CHECK(count(page, "<tr class=\"rank\">") == named.report().summary().ranks.size());
  CHECK(count(page, "<tr class=\"lane\">") == 4);
  CHECK_THAT(page, contains("layer/norm &lt;1>"));
  CHECK_THAT(page, contains("layer/norm \\u003c1>"));
  CHECK_THAT(page, contains("default-src 'none'"));
  // Nothing of the page asks for anything; the one address is the name of SVG.
  CHECK(count(page, "http") ==
        count(page, "http://www.w3.org/2000/svg") + count(page, "http-equiv"));
  CHECK(count(page, " src=") + count(page, "@import") + count(page, "url(") == 0);
}

TEST_CASE("a launch, the start of a transfer and descriptors have rows of their own",
          "[unit][neuroncore]") {
  Named named;
  nc::Instruction& gather = named.record.transfer(0, 128, 128 * 256);
  gather.opcode = nc::Opcode::dma_gather;
  gather.cost.partitions = 128;
  named.record.vector(512).after[4] = 1;
  const auto path_of = [&](const nc::Report& report, std::string_view name) {
    for (const nc::Rank& rank : report.summary().ranks)
      if (rank.kind == "wait" && rank.name == name) return rank.path_ns;
    return 0.0;
  };
  const auto report = [&] { return nc::Report(named.record.all, named.names, nc::trn1()); };
  const double descriptors = (330 + 75 * 128) / 1.4;
  CHECK_THAT(path_of(report(), "launch"), WithinRel(8000.0, 1e-9));
  CHECK_THAT(path_of(report(), "descriptors"), WithinRel(descriptors + 1300, 1e-9));
  CHECK_THAT(report().ns(), WithinRel(8000 + descriptors + 1300 + 8 * 142 + 1124 / 1.12, 1e-9));
  // The GpSimd engine is listed, though it has no instruction of its own.
  CHECK(report().text().find("\ngpsimd ") != std::string::npos);
  named.record.all[0].opcode = nc::Opcode::dma_copy;
  CHECK_THAT(path_of(report(), "launch"), WithinRel(8000.0, 1e-9));
  CHECK_THAT(path_of(report(), "start of transfers"), WithinRel(1300.0, 1e-9));
  CHECK(path_of(report(), "descriptors") == 0);
}
