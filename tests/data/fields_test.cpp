// Fields of batches, sequences of any type from one source, and functions of batches.

#include <soma/data/array_source.hpp>
#include <soma/data/bucketed_source.hpp>
#include <soma/data/image_maps.hpp>
#include <soma/data/mapped_source.hpp>
#include <soma/data/part.hpp>
#include <soma/data/prefetch.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using data::ArraySource;
using data::Batch;
using data::Columns;
using data::Field;
using data::MappedSource;

namespace {

// Sequence i has i + 1 rows [2], all of the number i; the last one has none.
constexpr std::size_t sequences = 6;
Columns ragged(Context& context) {
  std::vector<float> rows, marks;
  std::vector<std::int64_t> labels;
  std::vector<std::int32_t> codes;
  Columns columns;
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::size_t length = i + 1 == sequences ? 0 : i + 1;
    columns.lengths.push_back(length);
    labels.push_back(static_cast<std::int64_t>(10 + i));
    codes.push_back(static_cast<std::int32_t>(20 + i));
    for (std::size_t j = 0; j < length; ++j) {
      rows.insert(rows.end(), 2, static_cast<float>(i));
      marks.push_back(static_cast<float>(100 * i + j));
    }
  }
  columns.inputs = Tensor::from(context, std::span<const float>(rows), Shape{rows.size() / 2, 2});
  columns.labels = Tensor::from(context, std::span<const std::int64_t>(labels), Shape{sequences});
  columns.fields = {
      {"codes", Tensor::from(context, std::span<const std::int32_t>(codes), Shape{sequences, 1})},
      {"marks", Tensor::from(context, std::span<const float>(marks), Shape{marks.size()}), true}};
  return columns;
}

// Labels, fields and rows of a sequence are together, whatever the order.
void check_ragged(const Batch& batch) {
  const Sequences& own = batch.inputs.sequences;
  REQUIRE(batch.at("codes").shape() == Shape{own.count(), 1});
  REQUIRE(batch.at("marks").shape() == Shape{own.rows()});
  for (std::size_t i = 0; i < own.count(); ++i) {
    const std::int64_t item = batch.labels.span<std::int64_t>()[i] - 10;
    CHECK(batch.at("codes").span<std::int32_t>()[i] == item + 20);
    for (std::size_t row = own.begin(i); row < own.end(i); ++row) {
      CHECK(batch.inputs.rows.span<float>()[2 * row] == static_cast<float>(item));
      CHECK(batch.at("marks").span<float>()[row] ==
            static_cast<float>(100 * item) + static_cast<float>(row - own.begin(i)));
    }
  }
}

}  // namespace

TEST_CASE("sequences of a source keep their labels and fields", "[unit][data]") {
  auto context = make_context();
  ArraySource source(context, ragged(context), {.batch_sequences = 4, .seed = 5});
  data::Prefetch ahead(source);
  Batch batch;
  std::size_t count = 0;
  for (int epoch = 0; epoch < 3; ++epoch)
    while (ahead.next(batch)) {
      check_ragged(batch);
      count += batch.inputs.sequences.count();
      for (std::size_t shard = 0; shard < default_shards; shard += 2) {
        const Batch part = data::part_of(context, batch, shard, 2);
        check_ragged(part);
      }
    }
  CHECK(count == 3 * sequences);

  ArraySource ordered(context, ragged(context), {.batch_sequences = 4, .shuffle = false});
  data::BucketedSource padded(context, ordered, {4, 8});
  REQUIRE(padded.next(batch));
  const Tensor& marks = batch.at("marks");
  REQUIRE(marks.shape() == Shape{16});
  CHECK(marks.span<float>()[4] == 100);
  CHECK(marks.span<float>()[6] == 0);
  CHECK(batch.at("codes").shape() == Shape{4, 1});
}

TEST_CASE("fields are part of a source's identity", "[unit][data]") {
  auto context = make_context();
  const std::uint64_t plain = ArraySource(context, ragged(context)).hash();
  const auto changed = [&](auto&& change) {
    Columns columns = ragged(context);
    change(columns);
    return ArraySource(context, std::move(columns)).hash();
  };
  CHECK(changed([](Columns&) {}) == plain);
  CHECK(changed([](Columns& c) { c.fields[0].name = "other"; }) != plain);
  CHECK(changed([](Columns& c) { c.fields[0].values.mutable_span<std::int32_t>()[3] = 7; }) !=
        plain);
  CHECK(changed([](Columns& c) { std::swap(c.lengths[0], c.lengths[1]); }) != plain);
  CHECK(changed([](Columns& c) { c.fields.pop_back(); }) != plain);
}

TEST_CASE("columns that do not fit each other are refused", "[unit][data]") {
  auto context = make_context();
  const auto problem = [&](auto&& change) {
    return message_of([&] {
      Columns columns = ragged(context);
      change(columns);
      ArraySource(context, std::move(columns));
    });
  };
  CHECK(problem([](Columns& c) { c.lengths[0] = 2; }) ==
        "ArraySource: lengths is 6 that add up to 16, wanted the 15 rows of the inputs "
        "[data.offsets]");
  CHECK(problem([](Columns& c) { c.labels = c.labels.slice(0, 1, 6); }) ==
        "ArraySource: labels is [5] int64, wanted one for each of 6 sequences [data.labels]");
  CHECK(problem([](Columns& c) { c.fields[1].name = "codes"; }) ==
        "ArraySource: fields is two of the name \"codes\", wanted a name for each [data.field]");
  CHECK(problem([](Columns& c) { c.fields[0].by_rows = true; }) ==
        "ArraySource: field \"codes\" is [6, 1] int32, wanted 15 in the first dimension, one for "
        "each row [data.field]");
  CHECK(problem([](Columns& c) { c.fields[0].values = Tensor(); }) ==
        "ArraySource: field 0 is without values, wanted both [data.field]");
  ArraySource source(context, ragged(context));
  Batch batch;
  REQUIRE(source.next(batch));
  CHECK(message_of([&] { batch.at("code"); }) ==
        "Batch::at: name is \"code\", wanted one of codes, marks [data.field]");
  CHECK(message_of([] { Batch().at("code"); }) ==
        "Batch::at: name is \"code\", wanted a field; this batch has none [data.field]");
}

namespace {

// Numbers and codes together.
struct Both {
  explicit Both(const nn::Scope& scope)
      : table(scope / "table", 26, 3), head(scope / "head", 5, 2) {}
  Var operator()(Tape& tape, const Batch& batch) const {
    const Var codes = reshape(tape, table(tape, tape.constant(batch.at("codes"))),
                              Shape{batch.inputs.sequences.count(), 3});
    return head(tape, concatenate(tape, {tape.constant(batch.inputs), codes}, 1));
  }
  void collect(nn::Collector& collector) const {
    collector.part("table", table);
    collector.part("head", head);
  }
  nn::Embedding table;
  nn::Linear head;
};

}  // namespace

TEST_CASE("a model that takes a batch gets its fields, in a task and in a Sequential", "[unit]") {
  auto context = make_context();
  Columns columns;
  columns.inputs = nn::uniform(context, Shape{8, 2}, 1, {.seed = 3});
  columns.labels = Tensor::from<std::int64_t>(context, {0, 1, 0, 1, 1, 0, 0, 1}, {8});
  columns.fields = {
      {"codes", Tensor::from<std::int32_t>(context, {1, 5, 2, 25, 0, 9, 4, 3}, {8, 1})}};
  ArraySource source(context, columns, {.batch_sequences = 8, .shuffle = false});
  Batch batch;
  REQUIRE(source.next(batch));
  const Both both(nn::Scope{context, 1});
  nn::Sequential layers;
  layers.add("both", Both(nn::Scope{context, 1}));
  layers.add("same", [](Tape& tape, const auto& x) { return relu(tape, relu(tape, x)); });
  nn::ClassificationTask alone(both, 2);
  nn::ClassificationTask together(layers, 2);
  Tape tape(context, {.record = false});
  const Tensor scores = alone.forward(tape, batch).scores;
  const Tensor behind = together.forward(tape, batch).scores;
  Var by_pieces;
  for (const nn::Piece& piece : layers.pieces()) by_pieces = piece.run(tape, by_pieces, batch);
  for (std::size_t i = 0; i < 16; ++i) {
    const float wanted = (std::max)(scores.span<float>()[i], 0.0f);
    CHECK(behind.span<float>()[i] == wanted);
    CHECK(by_pieces.value().span<float>()[i] == wanted);
  }
  nn::Sequential wrong;
  wrong.add("same", [](Tape& t, const Var& x) { return relu(t, x); });
  wrong.add("both", [](Tape& t, const Batch& b) { return t.constant(b.inputs); });
  CHECK(message_of([&] { wrong(tape, batch); }) ==
        "Sequential: \"both\" is called with a variable, wanted the first place: it takes a batch "
        "[operator.value]");
}

namespace {

// Image i has the number of its pixel in each pixel, plus 1000 i.
Columns images(Context& context, std::size_t count) {
  std::vector<float> pixels;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t p = 0; p < 2 * 3 * 4; ++p)
      pixels.push_back(static_cast<float>(1000 * i + p + 1));
  return {.inputs = Tensor::from(context, std::span<const float>(pixels), Shape{count, 2, 3, 4})};
}

// The images behind the functions, by their numbers in the data.
using Seen = std::map<std::uint32_t, std::vector<float>>;
Seen seen_of(data::BatchSource& source) {
  Seen seen;
  Batch batch;
  while (source.next(batch))
    for (std::size_t i = 0; i < batch.items.size(); ++i) {
      const std::span<const float> all = batch.inputs.rows.span<float>();
      seen[batch.items[i]] =
          std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(24 * i),
                             all.begin() + static_cast<std::ptrdiff_t>(24 * i) + 24);
    }
  return seen;
}

}  // namespace

TEST_CASE("what an image becomes depends on seed, name, epoch and its number alone", "[unit]") {
  auto context = make_context();
  const auto epochs_of = [&](std::size_t batch, std::uint64_t order, std::uint64_t seed,
                             const char* name) {
    ArraySource source(context, images(context, 13), {.batch_sequences = batch, .seed = order});
    MappedSource moved(source, name, seed, data::random_crop(2));
    MappedSource turned(moved, "flip", seed, data::random_flip());
    data::Prefetch ahead(turned);
    std::vector<Seen> epochs{seen_of(ahead), seen_of(ahead)};
    ahead.seek({1, 0});
    epochs.push_back(seen_of(ahead));
    return epochs;
  };
  const std::vector<Seen> whole = epochs_of(13, 1, 7, "crop");
  CHECK(whole[0].size() == 13);
  CHECK(whole[1] != whole[0]);
  CHECK(whole[2] == whole[1]);
  CHECK(epochs_of(3, 9, 7, "crop") == whole);
  CHECK(epochs_of(13, 1, 8, "crop")[0] != whole[0]);
  CHECK(epochs_of(13, 1, 7, "other")[0] != whole[0]);
}

TEST_CASE("images are moved, mirrored and normalised", "[unit]") {
  auto context = make_context();
  constexpr int count = 400;
  // Each pixel that is there comes from the same distance; the others are 0.
  ArraySource source(context, images(context, count), {.batch_sequences = 64});
  MappedSource moved(source, "crop", 3, data::random_crop(1));
  std::map<std::pair<int, int>, int> distances;
  for (const auto& [item, pixels] : seen_of(moved)) {
    for (int down = -1; down <= 1; ++down)
      for (int right = -1; right <= 1; ++right) {
        bool same = true;
        for (int c = 0; c < 2; ++c)
          for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 4; ++x) {
              const int from_y = y - down, from_x = x - right;
              const bool there = from_y >= 0 && from_y < 3 && from_x >= 0 && from_x < 4;
              const int number =
                  there ? 1000 * static_cast<int>(item) + (c * 3 + from_y) * 4 + from_x + 1 : 0;
              same = same && pixels[static_cast<std::size_t>((c * 3 + y) * 4 + x)] ==
                                 static_cast<float>(number);
            }
        if (same) ++distances[{down, right}];
      }
  }
  int all = 0;
  for (const auto& [distance, times] : distances) {
    CHECK(times > count / 9 - 35);  // 5 standard deviations of a binomial
    CHECK(times < count / 9 + 35);
    all += times;
  }
  CHECK(distances.size() == 9);
  CHECK(all == count);

  ArraySource again(context, images(context, count), {.batch_sequences = 64});
  MappedSource turned(again, "flip", 3, data::random_flip());
  int mirrored = 0;
  for (const auto& [item, pixels] : seen_of(turned)) {
    const float first = static_cast<float>(1000 * item + 1);
    REQUIRE((pixels[0] == first || pixels[3] == first));
    CHECK(pixels[4] == pixels[0] + 4);
    mirrored += pixels[3] == first ? 1 : 0;
  }
  CHECK(mirrored > 150);
  CHECK(mirrored < 250);

  ArraySource third(context, images(context, 2), {.shuffle = false});
  MappedSource normal(third, "norm", 0, data::normalised({1, 13}, {2, 4}));
  const Seen seen = seen_of(normal);
  CHECK(seen.at(1)[0] == 500);
  CHECK(seen.at(0)[13] == 0.25f);
}

TEST_CASE("a function that breaks a batch is refused", "[unit][data]") {
  auto context = make_context();
  const auto problem = [&](const MappedSource::Function& function) {
    return message_of([&] {
      ArraySource source(context, ragged(context), {.batch_sequences = 6, .shuffle = false});
      MappedSource mapped(source, "mine", 0, function);
      Batch batch;
      mapped.next(batch);
    });
  };
  CHECK(problem([](Batch&, const data::ItemDraws&) {}) == "no error");
  CHECK(problem([](Batch& b, const data::ItemDraws&) { b.labels = b.labels.slice(0, 0, 2); }) ==
        "MappedSource: labels is [2] int64 behind the function \"mine\", wanted 6 in the first "
        "dimension, as before [data.field]");
  CHECK(problem([](Batch& b, const data::ItemDraws&) {
          b.fields.push_back({"short", b.labels.slice(0, 0, 3)});
        }) ==
        "MappedSource: field \"short\" is [3] int64, wanted 6 in the first dimension, one for each "
        "sequence [data.field]");
  CHECK(problem([&](Batch& b, const data::ItemDraws&) {
          b.inputs.sequences = Sequences::uniform(context, 15);
        }) ==
        "MappedSource: inputs is 15 sequences of 15 rows behind the function \"mine\", wanted 6 of "
        "15, as before [data.field]");
  CHECK(problem([](Batch& b, const data::ItemDraws& draws) {
          b.items.clear();
          draws(0).word();
        }) ==
        "ItemDraws: sequence 0 is without a number in the data, wanted one of a source that "
        "numbers its sequences [data.field]");
  CHECK(problem(data::random_flip()) ==
        "random_flip: inputs is [15, 2] fp32, wanted fp32 [images, channels, height, width], "
        "row-major [data.feature]");
}
