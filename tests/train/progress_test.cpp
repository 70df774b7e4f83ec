// This test checks that every number of a run's progress is written and read.

#include <soma/soma.hpp>
#include <soma/train/progress.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;

namespace {

// All numbers in the order of the visitor, as texts.
std::vector<std::string> numbers_of(train::Progress progress) {
  Record record;
  progress.write(record);
  std::vector<std::string> numbers;
  for (const auto& [name, value] : record.entries()) numbers.push_back(name + "=" + to_text(value));
  return numbers;
}

}  // namespace

TEST_CASE("progress is read as it was written, number by number", "[unit]") {
  train::Progress progress;
  double next = 2;
  progress.visit([&](std::string_view, auto& number) {
    number = static_cast<std::remove_reference_t<decltype(number)>>(next);
    next += 1;
  });
  Record record;
  progress.write(record);
  CHECK(numbers_of(train::Progress::read(record)) == numbers_of(progress));
  CHECK(record.entries().size() == 18);
  // A record that lacks one is refused.
  for (std::size_t left_out = 0; left_out < record.entries().size(); ++left_out) {
    Record less;
    for (std::size_t i = 0; i < record.entries().size(); ++i) {
      const auto& [name, value] = record.entries()[i];
      if (i == left_out) continue;
      if (value.kind == RecordValue::Kind::boolean)
        less.set(name, value.boolean);
      else if (value.kind == RecordValue::Kind::count)
        less.set(name, value.count);
      else
        less.set(name, value.number);
    }
    CHECK(soma_test::id_of([&] { train::Progress::read(less); }) == "record.missing");
  }
}
