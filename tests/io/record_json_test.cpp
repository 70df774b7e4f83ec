// Records as JSON and back, lines of a log, and tables.

#include <soma/io/confusion_csv.hpp>
#include <soma/io/json_lines.hpp>
#include <soma/io/record_json.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <bit>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>

using namespace soma;
using namespace soma_test;

namespace {

std::string problem_of(std::string_view text) {
  return message_of([&] { record_from_json(text, "line 3"); });
}

}  // namespace

TEST_CASE("a record is a line of JSON", "[unit][io]") {
  Record record;
  CHECK(to_json(record) == "{}");
  record.set("step", std::uint64_t{18446744073709551615u});
  record.set("least", (std::numeric_limits<std::int64_t>::min)());
  record.set("loss", 0.1);
  record.set("whole", 2.0);
  record.set("best", true);
  record.set("a \"text\"\n", "tab\t\u00e9\x01");
  record.set("none", std::nan(""));
  const std::string line = to_json(record);
  CHECK(line ==
        "{\"step\": 18446744073709551615, \"least\": -9223372036854775808, \"loss\": 0.1, "
        "\"whole\": 2.0, \"best\": true, \"a \\\"text\\\"\\n\": \"tab\\t\u00e9\\u0001\", "
        "\"none\": \"NaN\"}");
  const Record again = record_from_json(line, "again");
  CHECK(to_json(again) == line);
  CHECK(again.count("step") == 18446744073709551615u);
  CHECK(again.integer("least") == (std::numeric_limits<std::int64_t>::min)());
  CHECK(again.at("whole").kind == RecordValue::Kind::number);
  CHECK(again.text("a \"text\"\n") == "tab\t\u00e9\x01");
  CHECK(std::isnan(again.number("none")));
}

TEST_CASE("every double comes back bit for bit", "[unit][io]") {
  // Bit patterns from a linear congruence: exponents and signs of all kinds.
  std::uint64_t bits = 1;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    const auto value = std::bit_cast<double>(bits);
    Record record;
    record.set("x", value);
    const double back = record_from_json(to_json(record), "again").number("x");
    if (std::isnan(value))
      REQUIRE(std::isnan(back));
    else
      REQUIRE(std::bit_cast<std::uint64_t>(back) == bits);
  }
}

TEST_CASE("a value that is not defined is null where that is asked for", "[unit][io]") {
  Record record;
  record.set("auc", std::nan(""));
  record.set("f1", 0.5);
  record.set("text", "NaN");
  CHECK(to_json_with_null(record) == "{\"auc\": null, \"f1\": 0.5, \"text\": \"NaN\"}");
  CHECK(to_json(record) == "{\"auc\": \"NaN\", \"f1\": 0.5, \"text\": \"NaN\"}");
}

TEST_CASE("what is no record is refused", "[unit][io]") {
  CHECK(
      problem_of("[1]") ==
      "line 3: text is a text that has a list, wanted a JSON object of plain values [record.json]");
  CHECK(problem_of("{\"a\": 1, \"a\": 2}").find("has the name \"a\" twice") != std::string::npos);
  CHECK(problem_of("{\"a\": {}}").find("has an object inside") != std::string::npos);
  CHECK(problem_of("{\"a\": [1]}").find("has a list") != std::string::npos);
  CHECK(problem_of("{\"a\": null}").find("has a null") != std::string::npos);
  CHECK(problem_of("5").find("is no object") != std::string::npos);
  CHECK(problem_of("{\"a\": 1e999}").find("is no JSON at byte") != std::string::npos);
  CHECK(problem_of(std::string_view("{}\0x", 4)).find("has a zero byte") != std::string::npos);
  for (const char* text :
       {"", " ", "{", "{}{}", "{\"a\": 1,}", "{\"a\": NaN}", "{\"a\": \"\xff\"}", "{\"a\" 1}"})
    CHECK(problem_of(text).find("[record.json]") != std::string::npos);
  Record record("counters");
  record.set("name", "\xff");
  CHECK(message_of([&] { to_json(record); }) ==
        "counters: text is \"\xff\", wanted valid UTF-8 [record.text]");
}

TEST_CASE("a log grows by whole lines", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string path = folder / "log.jsonl";
  Record record;
  record.set("step", 1);
  {
    JsonLines log(path);
    log.write(record);
    CHECK(read_text(path) == "{\"step\": 1}\n");  // at once
    record.set("step", 2);
    log.write(record);
  }
  CHECK(read_text(path) == "{\"step\": 1}\n{\"step\": 2}\n");
  JsonLines(path).write(record);
  CHECK(read_text(path) == "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 2}\n");
  write_text(path, "{\"step\": 1}\n{\"st");
  JsonLines(path).write(record);
  CHECK(read_text(path) == "{\"step\": 1}\n{\"st\n{\"step\": 2}\n");  // one line is spoilt, not two
  JsonLines(path, ExistingFile::replace).write(record);
  CHECK(read_text(path) == "{\"step\": 2}\n");
  {
    const JsonLines first(path);
    for (const ExistingFile existing : {ExistingFile::append, ExistingFile::replace})
      CHECK_THAT(message_of([&] { JsonLines(path, existing); }),
                 contains("\" (in use by another writer), wanted a file that can be written"));
    CHECK_FALSE(read_text(path).empty());
  }
  CHECK(message_of([&] { JsonLines(folder / "missing/log"); }) ==
        "JsonLines: file is \"" + (folder / "missing/log") +
            "\" (cannot open: No such file or directory), wanted a file that can be written "
            "[file.write]");
  CHECK(id_of([&] { JsonLines(folder.path()); }) == "file.write");
  CHECK(id_of([] { JsonLines("/dev/null"); }) == "file.write");
  record.set("text", "\xff");
  JsonLines log(path);
  CHECK(id_of([&] { log.write(record); }) == "record.text");
  CHECK(read_text(path) == "{\"step\": 2}\n");
}

TEST_CASE("a full disk leaves no half line", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string path = folder / "log.jsonl";
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    JsonLines log(path);
    Record record;
    record.set("text", std::string(400, 'x'));
    log.write(record);
    log.write(record);
    _exit(id_of([&] { log.write(record); }) == "file.write" ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const std::string text = read_text(path);
  CHECK(text.size() == 2 * (400 + std::string("{\"text\": \"\"}\n").size()));
  CHECK(text.ends_with("\"}\n"));
}

TEST_CASE("a confusion matrix is a table", "[unit][io]") {
  const std::vector<std::string> labels{"good", "so, \"so\"", "two\nlines"};
  const std::vector<std::uint64_t> counts{1, 2, 3, 4, 5, 6, 7, 8, 18446744073709551615u};
  CHECK(confusion_csv(labels, counts) ==
        "actual/predicted,good,\"so, \"\"so\"\"\",\"two\nlines\"\r\n"
        "good,1,2,3\r\n\"so, \"\"so\"\"\",4,5,6\r\n\"two\nlines\",7,8,18446744073709551615\r\n");
  CHECK(confusion_csv({}, {}) == "actual/predicted\r\n");
  CHECK(message_of([&] { confusion_csv(labels, std::span(counts).first(8)); }) ==
        "confusion_csv: counts is 8 numbers, wanted the square of 3, the number of labels "
        "[csv.size]");
  CHECK(id_of([&] { confusion_csv({}, counts); }) == "csv.size");
}
