// Divisions of rows: by share and by folds, with labels and with groups.

#include <soma/data/split.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

using namespace soma_test;
using soma::data::RowSplit;
using soma::data::split_folds;
using soma::data::split_rows;

namespace {

// Every row once, ascending.
void check_whole(const RowSplit& split, std::size_t count) {
  CHECK(std::is_sorted(split.train.begin(), split.train.end()));
  CHECK(std::is_sorted(split.validation.begin(), split.validation.end()));
  std::set<std::uint32_t> all(split.train.begin(), split.train.end());
  all.insert(split.validation.begin(), split.validation.end());
  CHECK(all.size() == count);
  CHECK(split.train.size() + split.validation.size() == count);
}

std::map<std::int64_t, int> counts(const std::vector<std::uint32_t>& rows,
                                   const std::vector<std::int64_t>& numbers) {
  std::map<std::int64_t, int> result;
  for (const std::uint32_t row : rows) ++result[numbers[row]];
  return result;
}

}  // namespace

TEST_CASE("folds: each row is validated once", "[unit][data]") {
  for (const std::size_t count : {5u, 23u, 100u}) {
    const std::vector<RowSplit> folds = split_folds(count, 5, 3);
    REQUIRE(folds.size() == 5);
    std::vector<int> times(count);
    for (const RowSplit& fold : folds) {
      check_whole(fold, count);
      CHECK(fold.validation.size() >= count / 5);
      CHECK(fold.validation.size() <= (count + 4) / 5);
      for (const std::uint32_t row : fold.validation) ++times[row];
    }
    CHECK(times == std::vector<int>(count, 1));
    CHECK(split_folds(count, 5, 3)[1].validation == folds[1].validation);
  }
  CHECK(split_folds(100, 5, 3)[0].validation != split_folds(100, 5, 4)[0].validation);
}

TEST_CASE("with labels each class is divided alike", "[unit][data]") {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < 90; ++i) labels.push_back(i % 9 == 0 ? 7 : i % 3 == 0 ? -1 : 4);
  const std::map<std::int64_t, int> all{{7, 10}, {-1, 20}, {4, 60}};
  for (const RowSplit& fold : split_folds(90, 4, 1, {.labels = labels})) {
    check_whole(fold, 90);
    for (const auto& [label, times] : counts(fold.validation, labels)) {
      CHECK(times >= all.at(label) / 4);
      CHECK(times <= (all.at(label) + 3) / 4);
    }
    CHECK(fold.validation.size() >= 22);
    CHECK(fold.validation.size() <= 23);
  }
  const RowSplit split = split_rows(90, 0.2, 1, {.labels = labels});
  check_whole(split, 90);
  CHECK(counts(split.validation, labels) == std::map<std::int64_t, int>{{7, 2}, {-1, 4}, {4, 12}});
}

TEST_CASE("a group is never divided", "[unit][data]") {
  std::vector<std::int64_t> groups;
  for (std::int64_t group = 0; group < 30; ++group)
    groups.insert(groups.end(), static_cast<std::size_t>(1 + group % 7), group);
  const std::size_t count = groups.size();
  const auto whole = [&](const RowSplit& split) {
    check_whole(split, count);
    const auto in_train = counts(split.train, groups);
    for (const auto& [group, times] : counts(split.validation, groups))
      CHECK(in_train.count(group) == 0);
  };
  for (const RowSplit& fold : split_folds(count, 5, 2, {.groups = groups})) {
    whole(fold);
    CHECK(fold.validation.size() >= count / 5 - 3);
    CHECK(fold.validation.size() <= count / 5 + 4);
  }
  const RowSplit split = split_rows(count, 0.25, 2, {.groups = groups});
  whole(split);
  CHECK(std::abs(static_cast<double>(split.validation.size()) - 0.25 * static_cast<double>(count)) <
        4);
  const std::vector<std::int64_t> two{1, 1, 1, 2};
  whole(split_rows(count, 0.01, 2, {.groups = groups}));
  CHECK(split_rows(4, 0.9, 2, {.groups = two}).train.size() >= 1);
}

TEST_CASE("divisions that cannot be made are refused", "[unit][data]") {
  const std::vector<std::int64_t> some{1, 2, 3}, one{5, 5, 5};
  CHECK(message_of([&] { split_folds(3, 4, 0); }) ==
        "split_folds: folds is 4 of 3 rows, wanted 2 to as many as there are [data.split]");
  CHECK(message_of([&] { split_folds(3, 2, 0, {.groups = one}); }) ==
        "split_folds: folds is 2 of 1 groups, wanted 2 to as many as there are [data.split]");
  CHECK(message_of([&] { split_folds(4, 2, 0, {.labels = some}); }) ==
        "split_folds: by is 3 numbers for 4 rows, wanted one for each row [data.split]");
  CHECK(message_of([&] { split_rows(3, 0.5, 0, {.labels = some, .groups = some}); }) ==
        "split_rows: by is labels and groups, wanted one of them [data.split]");
  CHECK(id_of([&] { split_rows(3, 0.5, 0, {.groups = one}); }) == "data.split");
  CHECK(id_of([&] { split_rows(3, 1, 0, {.labels = some}); }) == "data.split");
}
