#pragma once
// CountedFeatures: turns texts into sparse rows of numbers for a linear classifier. Features are
// words, runs of neighbouring words and parts of words; a table of slots holds the hashes that
// training saw, so that a word which was never seen finds no row and adds nothing.
//
// A feature that stands k times in a text has (1 + ln k) (ln((1 + n) / (1 + df)) + 1) g, with n
// texts of which df have the feature. Words with their runs, and parts of words, are scaled to a
// fixed length before g; unknown features count in that length with df = 1. g says how much a
// feature tells about the classes, and keeps the length of a row. (For two classes and the exponent
// 1, g is the ratio of Wang and Manning, "Baselines and Bigrams", ACL 2012.)
//
// Texts: ASCII words of letters and digits, marks by themselves; beyond ASCII, lower case of all
// letters, Unicode's punctuation as marks, and each character of a script without spaces between
// words (Han, kana, Thai, Lao, Khmer, Burmese) as a token of which pairs and triples are features.

#include <soma/base/error.hpp>
#include <soma/base/record.hpp>
#include <soma/ops/fields.hpp>
#include <soma/runtime/context.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// True for texts of at most 400 bytes on average. They have few words, so parts of words help, and
// so do words that one text has alone.
constexpr bool are_short(std::uint64_t bytes, std::uint64_t texts) { return bytes <= 400 * texts; }

struct CountedFeatureOptions {
  std::size_t ngrams = 2;      // runs of 1 to `ngrams` neighbouring words, 1 to 8
  std::size_t parts_from = 0;  // characters of the shortest part of a word, 1 to `parts`
  std::size_t parts = 0;       // characters of the longest one, at most 16; both 0: no parts
  double part_weight = 0.7;    // the length of parts beside that of words, 0 to 100
  double strength = 0.5;       // the exponent of g, 0 to 4; 0: g is 1
  bool drop_single = false;    // features of one text only find no row
};
void fields(FieldVisitor& visitor, CountedFeatureOptions& options);

// Texts as numbers of rows and how often each stands there, before weights are known.
struct FeatureCounts {
  std::vector<std::int64_t> begins{0};
  std::vector<std::int32_t> rows;
  std::vector<float> counts;                        // 1 + ln(count)
  std::vector<float> unknown_words, unknown_parts;  // sums of squares of such numbers, [texts]

  std::size_t texts() const;
};

// Sparse rows for a classifier. `known` is the share of a text's length that known features have.
struct FeatureRows {
  std::vector<std::int64_t> begins{0};
  std::vector<std::int32_t> features;
  std::vector<float> values;
  std::vector<float> known;  // [texts], 0 to 1
};

class CountedFeatures {
 public:
  static constexpr std::uint64_t version = 2;  // frozen with the hashes

  // Everything that an instance knows, for files. Rows are ordered by how many texts have them.
  struct Table {
    std::vector<std::int32_t> homes;          // first slot of each row: the hash's leading bits
    std::vector<std::uint16_t> fingerprints;  // 16 bits of each row's hash
    std::vector<float> idf;                   // 0: no counted text has the row
    std::vector<float> g;
    std::vector<std::uint8_t> of_part;
    float unknown_idf = 1;
    std::int32_t bits = 4;  // 2^bits slots
  };

  // Error text.features: an option out of its range.
  explicit CountedFeatures(const CountedFeatureOptions& options = {});
  // Errors text.features: a table that does not fit itself.
  CountedFeatures(const CountedFeatureOptions& options, Table table);

  // Options and numbers of the table for a file's record, whose keys begin with `prefix`, and an
  // instance of them with the lists of `table`. Errors record.missing, record.type, text.features.
  void describe(soma::Record& record, std::string_view prefix) const;
  static CountedFeatures of_record(const soma::Record& record, std::string_view prefix,
                                   Table table);

  const CountedFeatureOptions& options() const { return options_; }
  const Table& table() const { return table_; }
  std::size_t rows() const;

  // Makes the table from the hashes of these texts and counts them. All threads hash.
  FeatureCounts learn(Context& context, std::span<const std::string_view> texts);
  // Sets idf and g from those texts whose `used` is not 0. Labels of text i are labels[i's part of
  // label_begins], ascending.
  void weigh(const FeatureCounts& counts, std::span<const std::int64_t> label_begins,
             std::span<const std::int32_t> labels, std::size_t classes,
             std::span<const std::uint8_t> used);
  // The rows of texts whose `used` is `wanted`, in their order.
  FeatureRows values(const FeatureCounts& counts, std::span<const std::uint8_t> used,
                     std::uint8_t wanted) const;
  // The words, runs and parts of a text, each as often as it stands there. Thread-safe.
  std::size_t occurrences(std::string_view text) const;
  // The row of one more text, appended. Thread-safe.
  void add(std::string_view text, FeatureRows& to) const;

 private:
  struct Hashes;
  struct Slot {
    std::int32_t row = -1;
    std::uint16_t fingerprint = 0;
  };

  void hash(std::string_view text, Hashes& hashes) const;
  void hash_word(const unsigned char* begin, const unsigned char* end, Hashes& hashes) const;
  std::int32_t find(std::uint64_t hash) const;
  std::int32_t insert(std::uint64_t hash);
  void weigh_classes(const FeatureCounts& counts, std::span<const std::int64_t> label_begins,
                     std::span<const std::int32_t> labels, std::size_t classes,
                     std::span<const std::uint8_t> used);
  void append(const FeatureCounts& counts, std::size_t text, FeatureRows& to) const;

  CountedFeatureOptions options_;
  Table table_;
  std::vector<Slot> slots_;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/counted_features.ipp>
#endif
