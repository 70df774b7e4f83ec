// A NeuronCore's trace and page as files: what a JSON library reads in the one, what a browser
// draws of the other, and what is left where they cannot be written.

#include <soma/neuroncore_clock.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

using namespace soma_test;
namespace nc = soma::neuroncore;
using soma::DType;

namespace {

// Rows doubled, tile by tile, in a region.
struct Doubled {
  Doubled() : core(nc::make_core(context, nc::trn1(), {.record = true, .compute = false})) {
    const std::size_t rows = 128 * 40;
    const soma::Tensor x = soma::Tensor::empty(context, soma::Shape{rows, 64});
    const soma::Tensor y = soma::Tensor::empty(context, soma::Shape{rows, 64});
    const nc::Tile tiles[] = {core.sbuf.tile(DType::fp32, 128, 64),
                              core.sbuf.tile(DType::fp32, 128, 64)};
    const auto all = core.region("double");
    for (std::size_t row = 0; row < rows; row += 128) {
      const nc::Tile& tile = tiles[row / 128 % 2];
      core.dma.load(tile, nc::hbm(x).rows(row, row + 128));
      {
        const auto inner = core.region("<add>");
        core.vector.tensor_tensor(tile, tile, tile, nc::Alu::add);
      }
      core.dma.queue(1).store(nc::hbm_target(y).rows(row, row + 128), tile);
    }
    core.finish();
  }
  soma::Context context = soma::make_context({.threads = 1});
  nc::Core core;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder that goes with its test.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "soma-page-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

std::size_t files(const std::filesystem::path& folder) {
  const auto all = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// The page as a browser renders it.
std::string drawn(const std::filesystem::path& folder, const std::string& view = "") {
  const std::string command = "chromium --headless --no-sandbox --disable-gpu --user-data-dir=" +
                              (folder / "profile").string() + " --dump-dom 'file://" +
                              (folder / "page.html").string() + view + "' 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[65536];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    text.append(buffer, got);
  CHECK(::pclose(pipe) == 0);
  return text;
}
std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}
// Slices that a page drew, those that were drawn together too.
std::size_t slices(std::string_view page) {
  constexpr std::string_view key = "data-count=\"";
  std::size_t sum = 0;
  for (std::size_t at = page.find(key); at != page.npos; at = page.find(key, at + 1))
    sum += std::stoul(std::string(page.substr(at + key.size(), 12)));
  return sum;
}

}  // namespace

TEST_CASE("a NeuronCore's trace is JSON with its slices", "[unit][neuroncore]") {
  const Doubled program;
  const Folder folder;
  const std::string path = folder.path / "trace.json";
  const nc::Report report = nc::report(program.core);
  nc::write_trace(path, report);
  const nlohmann::json trace = nlohmann::json::parse(read(path));
  std::size_t slices = 0, arrows = 0, counters = 0;
  for (const auto& event : trace["traceEvents"]) {
    slices += event["ph"] == "X" ? 1u : 0u;
    arrows += event["ph"] == "s" ? 1u : 0u;
    counters += event["ph"] == "C" ? 1u : 0u;
  }
  const std::size_t regions = 1 + 40;  // overlapping regions are one slice; the inner one has 40
  CHECK(slices == 120 + regions);
  CHECK(arrows > 0);
  CHECK(counters > 0);
  CHECK(trace["otherData"]["left out"] == "");
  const nlohmann::json numbers = nlohmann::json::parse(report.json());
  CHECK(numbers["instructions"] == 120);
  CHECK(numbers["estimate"] == true);
  CHECK(numbers["lanes"].size() == 3);
}

TEST_CASE("a trace or page appears whole or not at all", "[unit][neuroncore]") {
  const Doubled program;
  const Folder folder;
  const nc::Report report = nc::report(program.core);
  CHECK(id_of([&] { nc::write_trace((folder.path / "no" / "trace.json").string(), report); }) ==
        "file.write");
  CHECK(id_of([&] { nc::write_page((folder.path / "no" / "page.html").string(), report); }) ==
        "file.write");
  CHECK(id_of([&] { nc::write_page("/dev/full", report); }) == "file.write");
  const std::string path = folder.path / "page.html";
  std::ofstream(path) << "old";
  // Another file cannot be made beside it: the old one stays.
  const std::string long_name = folder.path / (std::string(250, 'x'));
  std::ofstream(long_name) << "old";
  CHECK(id_of([&] { nc::write_page(long_name, report); }) == "file.write");
  CHECK(read(long_name) == "old");
  nc::write_page(path, report);
  CHECK(read(path) == report.html());
  CHECK(files(folder.path) == 2);
}

TEST_CASE("a browser draws the page", "[slow][neuroncore]") {
  if (std::system("command -v chromium >/dev/null") != 0) {
    WARN("SKIPPED: there is no chromium");
    return;
  }
  const Doubled program;
  const Folder folder;
  const nc::Report report = nc::report(program.core);
  nc::write_page((folder.path / "page.html").string(), report);
  const std::string page = drawn(folder.path);
  CHECK_THAT(page, contains("data-drawn=\"yes\""));
  CHECK(count(page, "<text x=\"0\"") == 3 + 2);  // rows: two queues, an engine, two regions
  CHECK(slices(page) == 120 + 41);
  CHECK(count(page, "<tr class=\"rank\">") == report.summary().ranks.size());
  CHECK(count(page, "<tr class=\"lane\">") == 3);
  // A part of the time: fewer slices, none of them drawn together.
  const auto end = static_cast<long>(report.ns());
  const std::string part =
      drawn(folder.path, "#" + std::to_string(end - 9000) + "-" + std::to_string(end));
  CHECK(slices(part) < 30);
  CHECK(slices(part) > 5);
  CHECK(count(part, "class=\"slice\"") == slices(part));
  CHECK_THAT(part, contains("dma_copy, "));
  CHECK_THAT(part, contains("double/&lt;add&gt;"));
}
