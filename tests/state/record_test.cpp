// Record: order, types, and errors that name what is wrong; and what makes two runs the same.

#include <soma/base/record.hpp>
#include <soma/state/checkpoint.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

TEST_CASE("a record keeps its values in the order they were set", "[unit][state]") {
  Record record("progress");
  record.set("step", std::uint64_t{12});
  record.set("delta", -3);
  record.set("loss", 0.25f);
  record.set("done", false);
  record.set("name", "bert");
  record.set("step", std::uint64_t{13});
  std::vector<std::string> names;
  for (const auto& [name, value] : record.entries()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"step", "delta", "loss", "done", "name"});
  CHECK(record.count("step") == 13);
  CHECK(record.integer("delta") == -3);
  CHECK(record.number("loss") == 0.25);
  CHECK_FALSE(record.boolean("done"));
  CHECK(record.text("name") == "bert");
  CHECK(record.contains("done"));
  CHECK(record.find("other") == nullptr);
}

TEST_CASE("numbers may be asked for as any kind that holds them", "[unit][state]") {
  Record record;
  record.set("small", 5);
  record.set("negative", -5);
  record.set("large", (std::numeric_limits<std::uint64_t>::max)());
  record.set("most", (std::numeric_limits<std::int64_t>::max)());
  record.set("exact", std::int64_t{1} << 53);
  record.set("infinite", "-Infinity");
  record.set("none", "NaN");
  CHECK(record.count("small") == 5);
  CHECK(record.number("small") == 5);
  CHECK(record.number("negative") == -5);
  CHECK(record.count("most") == 9223372036854775807u);
  CHECK(record.number("exact") == 9007199254740992.0);
  CHECK(record.number("infinite") == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(record.number("none")));
  CHECK(id_of([&] { record.count("negative"); }) == "record.type");
  CHECK(id_of([&] { record.integer("large"); }) == "record.type");
  CHECK(id_of([&] { record.number("large"); }) == "record.type");
  CHECK(id_of([&] { record.number("most"); }) == "record.type");
  CHECK(id_of([&] { record.boolean("small"); }) == "record.type");
}

TEST_CASE("a record's errors name its purpose and the value", "[unit][state]") {
  Record record("progress of \"a/step-1\"");
  CHECK(message_of([&] { record.at("step"); }) ==
        "progress of \"a/step-1\": name is \"step\", wanted a name in a record that has none "
        "[record.missing]");
  record.set("epoch", "two");
  record.set("loss", 1.0);
  CHECK(message_of([&] { record.count("step"); }) ==
        "progress of \"a/step-1\": name is \"step\", wanted one of \"epoch\" \"loss\" "
        "[record.missing]");
  CHECK(message_of([&] { record.count("epoch"); }) ==
        "progress of \"a/step-1\": \"epoch\" is \"two\", wanted an integer of 64 bits that is not "
        "negative [record.type]");
  CHECK(message_of([&] { record.text("loss"); }) ==
        "progress of \"a/step-1\": \"loss\" is 1.0, wanted a text [record.type]");
  CHECK(message_of([&] { record.number("epoch"); }) ==
        "progress of \"a/step-1\": \"epoch\" is \"two\", wanted a number that a double holds "
        "[record.type]");
}

TEST_CASE("numbers become the fewest digits that read back the same", "[unit][state]") {
  CHECK(to_text(1.0) == "1.0");
  CHECK(to_text(-0.0) == "-0.0");
  CHECK(to_text(0.1) == "0.1");
  CHECK(to_text(0.1 + 0.2) == "0.30000000000000004");
  CHECK(to_text(1e300) == "1e+300");
  CHECK(to_text(5e-324) == "5e-324");
  CHECK(to_text(std::nan("")) == "\"NaN\"");
  CHECK(to_text(-std::numeric_limits<double>::infinity()) == "\"-Infinity\"");
}

TEST_CASE("a run goes on only from one like it", "[unit][state]") {
  Record saved("identity"), current("identity");
  saved.set("layers", std::uint64_t{6});
  saved.set("rate", 1e-5);
  current.set("rate", 1e-5);
  current.set("layers", 6);  // a file does not say whether it was signed
  check_identity(saved, current);
  current.set("rate", 2e-5);
  CHECK(message_of([&] { check_identity(saved, current); }) ==
        "check_identity: \"rate\" is 2e-05, wanted 1e-05, as the checkpoint has it "
        "[checkpoint.identity]");
  current.set("rate", 1e-5);
  current.set("data", "a0");
  CHECK(message_of([&] { check_identity(saved, current); }) ==
        "check_identity: \"data\" is \"a0\", wanted not there, as the checkpoint has it "
        "[checkpoint.identity]");
  saved.set("data", "a0");
  saved.set("math", "portable");
  CHECK(message_of([&] { check_identity(saved, current); }) ==
        "check_identity: \"math\" is not there, wanted \"portable\", as the checkpoint has it "
        "[checkpoint.identity]");
}
