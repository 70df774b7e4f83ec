// Pages of running processes: whole at every moment, and nothing but pages is shown.

#include <soma/io/status/status_page.hpp>

#include "catch.hpp"
#include "io/child.hpp"
#include "support/errors.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
using soma_test::contains;

namespace {

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "soma_status.XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string path;
};

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("A page is seen by readers until its process ends or gives it up", "[io][status]") {
  const Folder folder;
  const std::string runs = folder.path + "/soma";
  CHECK(soma::runs_in(runs).runs.empty());
  {
    soma::StatusPage page(runs, "train --epochs 3", "bert");
    page.status().step = 7;
    page.status().busy_count = 2;
    page.status().busy[1] = 0.5;
    page.publish();
    const soma::RunsFound found = soma::runs_in(runs);
    REQUIRE(found.runs.size() == 1);
    CHECK(found.left_out.empty());
    CHECK(found.runs[0].process == static_cast<std::uint64_t>(::getpid()));
    CHECK(found.runs[0].step == 7);
    CHECK(found.runs[0].busy[1] == 0.5);
    CHECK(std::string(found.runs[0].command.data()) == "train --epochs 3");
    CHECK(std::string(found.runs[0].model.data()) == "bert");
    struct stat known {};
    REQUIRE(::stat((runs + "/" + std::to_string(::getpid())).c_str(), &known) == 0);
    CHECK((known.st_mode & 0777) == 0600);
    CHECK_THAT(soma_test::message_of([&] { soma::StatusPage(runs, "", ""); }),
               contains("there is one") && contains("[file.write]"));
  }
  CHECK(soma::runs_in(runs).runs.empty());
  CHECK(fs::is_empty(runs));
}

TEST_CASE("What is no page of a live process of this user is left out, with the reason",
          "[io][status]") {
  const Folder folder;
  // A child makes a page and is gone without taking it away.
  const pid_t child = ::fork();
  if (child == 0) {
    auto* page = new soma::StatusPage(folder.path, "killed", "");
    page->publish();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const std::string of_child = folder.path + "/" + std::to_string(child);
  REQUIRE(fs::exists(of_child));
  std::string bytes;
  {
    std::ifstream file(of_child, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  write(folder.path + "/notes", "not a page");
  write(folder.path + "/1", bytes);  // another number than the page says
  std::string foreign = bytes;
  foreign[0] = static_cast<char>(foreign[0] + 1);
  write(folder.path + "/2", foreign);
  std::string writing = bytes;  // a writer that died between its two numbers
  writing[8] = 3;
  write(folder.path + "/3", writing);
  fs::create_directory(folder.path + "/4");
  ::symlink("notes", (folder.path + "/5").c_str());
  const bool root = ::geteuid() == 0;
  if (root) {
    write(folder.path + "/6", bytes);
    REQUIRE(::chown((folder.path + "/6").c_str(), 65534, 65534) == 0);
  }
  const soma::RunsFound found = soma::runs_in(folder.path);
  CHECK(found.runs.empty());
  std::string all;
  for (const std::string& line : found.left_out) all += line + "\n";
  INFO(all);
  CHECK(found.left_out.size() == (root ? 8 : 7));
  CHECK_THAT(all, contains("\"notes\": is no page of a run"));
  CHECK_THAT(all, contains("\"1\": names process"));
  CHECK_THAT(all, contains("\"2\": is no page of a run, or one of another version"));
  CHECK_THAT(all, contains("\"3\": was written all the while"));
  CHECK_THAT(all, contains("\"4\": is no page of a run"));
  CHECK_THAT(all, contains("\"5\": cannot be opened"));
  CHECK_THAT(all, contains("its process has ended"));
  if (root) CHECK_THAT(all, contains("\"6\": belongs to another user"));

  // The next writer takes away what dead processes left.
  const soma::StatusPage page(folder.path, "", "");
  CHECK_FALSE(fs::exists(of_child));
  CHECK(fs::exists(folder.path + "/notes"));
  // Without a folder of this user's there is nowhere to write.
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string kept = before == nullptr ? "" : before;
  ::unsetenv("XDG_RUNTIME_DIR");
  CHECK_THAT(soma_test::message_of([] { (void)soma::status_folder(); }),
             contains("XDG_RUNTIME_DIR") && contains("[file.write]"));
  if (before != nullptr) ::setenv("XDG_RUNTIME_DIR", kept.c_str(), 1);
}

TEST_CASE("No reader sees half of one status and half of another", "[io][status]") {
  auto page = std::make_unique<soma::detail::StatusPageWords>();
  soma::RunStatus status;
  const auto fill = [&](std::uint64_t value) {
    status.process = status.step = status.steps = status.resident_bytes = value;
    for (double& share : status.busy) share = static_cast<double>(value);
    status.predicted = value;
  };
  fill(1);
  soma::detail::write_status(*page, status);
  std::atomic<bool> end{false};
  std::thread writer([&] {
    for (std::uint64_t value = 1; !end; ++value) {
      fill(value);
      soma::detail::write_status(*page, status);
      std::this_thread::yield();  // readers would else begin again most of the time
    }
  });
  std::uint64_t torn = 0, seen = 0, changed = 0, last = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto found = soma::detail::read_status(*page);
    if (!found) continue;
    ++seen;
    changed += found->process != last ? 1 : 0;
    last = found->process;
    bool whole = found->step == last && found->predicted == last && found->steps == last;
    for (const double share : found->busy) whole = whole && share == static_cast<double>(last);
    torn += whole ? 0 : 1;
  }
  end = true;
  writer.join();
  CHECK(torn == 0);
  CHECK(seen > 0);
  CHECK(changed > 1);  // the writer did write meanwhile
}
