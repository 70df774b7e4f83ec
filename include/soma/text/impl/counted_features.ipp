#pragma once
// The functions of counted_features.hpp.

#include <soma/text/counted_features.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/text/distinct_hashes.hpp>
#include <soma/text/unicode.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

namespace detail {

// At half as many rows as slots, hashes that are spread evenly have chains of some ten slots.
inline constexpr std::size_t longest_chain = 4096;

}  // namespace detail

// The hashes of one text: words and runs of them, and parts of words.
struct CountedFeatures::Hashes {
  std::vector<std::uint64_t> words{}, parts{};
  std::vector<std::uint64_t> tokens{};     // words in a row, for the runs
  std::vector<std::uint8_t> characters{};  // 1: a token is a character of an unspaced script
  std::vector<unsigned char> lowered{};    // scratch

  void clear() {
    words.clear();
    parts.clear();
    tokens.clear();
    characters.clear();
  }
};

SOMA_INLINE void fields(FieldVisitor& visitor, CountedFeatureOptions& options) {
  visitor.option("ngrams", options.ngrams, NumberRange::within(1, 8));
  visitor.option("parts_from", options.parts_from, NumberRange::within(0, 16));
  visitor.option("parts", options.parts, NumberRange::within(0, 16));
  visitor.option("part_weight", options.part_weight, NumberRange::within(0, 100));
  visitor.option("strength", options.strength, NumberRange::within(0, 4));
  visitor.option("drop_single", options.drop_single);
}

SOMA_INLINE std::size_t FeatureCounts::texts() const { return begins.size() - 1; }

SOMA_INLINE CountedFeatures::CountedFeatures(const CountedFeatureOptions& options)
    : options_(options), slots_(16) {
  check_ranges("CountedFeatures", options, error_id::text_features);
  if (options.parts_from > options.parts || (options.parts_from == 0 && options.parts != 0))
    fail(error_id::text_features, "CountedFeatures", "parts_from and parts",
         std::to_string(options.parts_from) + " and " + std::to_string(options.parts),
         "1 to parts, or 0 and 0");
}

SOMA_INLINE CountedFeatures::CountedFeatures(const CountedFeatureOptions& options, Table table)
    : CountedFeatures(options) {
  const auto check = [](bool fits, const std::string& what, const std::string& got,
                        const std::string& wanted) {
    if (!fits) fail(error_id::text_features, "CountedFeatures", what, got, wanted);
  };
  const std::size_t count = table.homes.size();
  check(table.bits >= 4 && table.bits <= 30, "bits", std::to_string(table.bits), "4 to 30");
  check(table.fingerprints.size() == count && table.idf.size() == count &&
            table.g.size() == count && table.of_part.size() == count,
        "rows of the table", std::to_string(count) + " homes", "as many of everything");
  check(std::isfinite(table.unknown_idf) && table.unknown_idf >= 0, "unknown_idf",
        std::to_string(table.unknown_idf), "a finite number");
  slots_.assign(std::size_t{1} << table.bits, Slot{});
  check(count < slots_.size(), "rows", std::to_string(count),
        "fewer than " + std::to_string(slots_.size()) + " slots");
  for (std::size_t row = 0; row < count; ++row) {
    const std::int32_t home = table.homes[row];
    check(home >= 0 && static_cast<std::size_t>(home) < slots_.size(), "a row's slot",
          std::to_string(home), "0 to " + std::to_string(slots_.size() - 1));
    // Hashes are spread evenly: a long chain is no table of hashes.
    std::size_t steps = 0, at = static_cast<std::size_t>(home);
    for (; slots_[at].row >= 0 && steps <= detail::longest_chain; ++steps)
      at = (at + 1) & (slots_.size() - 1);
    check(steps <= detail::longest_chain, "rows behind slot " + std::to_string(home),
          "more than " + std::to_string(detail::longest_chain), "at most so many");
    check(std::isfinite(table.idf[row]) && std::isfinite(table.g[row]) && table.idf[row] >= 0 &&
              table.g[row] >= 0,
          "a row's weights", std::to_string(table.idf[row]) + ", " + std::to_string(table.g[row]),
          "finite numbers, at least 0");
    slots_[at] = {static_cast<std::int32_t>(row), table.fingerprints[row]};
  }
  table_ = std::move(table);
}

SOMA_INLINE void CountedFeatures::describe(soma::Record& record, std::string_view prefix) const {
  const auto key = [&](const char* name) { return std::string(prefix).append(name); };
  record.set(key("ngrams"), options_.ngrams);
  record.set(key("parts_from"), options_.parts_from);
  record.set(key("parts"), options_.parts);
  record.set(key("part_weight"), options_.part_weight);
  record.set(key("strength"), options_.strength);
  record.set(key("bits"), table_.bits);
  record.set(key("unknown_idf"), static_cast<double>(table_.unknown_idf));
}

SOMA_INLINE CountedFeatures CountedFeatures::of_record(const soma::Record& record,
                                                       std::string_view prefix, Table table) {
  const auto key = [&](const char* name) { return std::string(prefix).append(name); };
  CountedFeatureOptions options;
  options.ngrams = record.count(key("ngrams"));
  options.parts_from = record.count(key("parts_from"));
  options.parts = record.count(key("parts"));
  options.part_weight = record.number(key("part_weight"));
  options.strength = record.number(key("strength"));
  table.bits = static_cast<std::int32_t>((std::min)(record.count(key("bits")), std::uint64_t{99}));
  table.unknown_idf = static_cast<float>(record.number(key("unknown_idf")));
  return CountedFeatures(options, std::move(table));
}

SOMA_INLINE std::size_t CountedFeatures::rows() const { return table_.homes.size(); }

SOMA_INLINE std::int32_t CountedFeatures::find(std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto fingerprint = static_cast<std::uint16_t>(hash);
  for (std::size_t at = hash >> (64 - table_.bits); slots_[at].row >= 0; at = (at + 1) & mask)
    if (slots_[at].fingerprint == fingerprint) return slots_[at].row;
  return -1;
}

SOMA_INLINE std::int32_t CountedFeatures::insert(std::uint64_t hash) {
  const std::size_t mask = slots_.size() - 1;
  const auto fingerprint = static_cast<std::uint16_t>(hash);
  const std::size_t home = hash >> (64 - table_.bits);
  std::size_t at = home;
  for (; slots_[at].row >= 0; at = (at + 1) & mask)
    if (slots_[at].fingerprint == fingerprint) return slots_[at].row;
  const auto row = static_cast<std::int32_t>(table_.homes.size());
  slots_[at] = {row, fingerprint};
  table_.homes.push_back(static_cast<std::int32_t>(home));
  table_.fingerprints.push_back(fingerprint);
  return row;
}

// Parts of "<word>", in characters.
SOMA_INLINE void CountedFeatures::hash_word(const unsigned char* begin, const unsigned char* end,
                                            Hashes& hashes) const {
  using namespace detail;
  std::vector<unsigned char>& marked = hashes.lowered;
  marked.assign(1, '<');
  marked.insert(marked.end(), begin, end);
  marked.push_back('>');
  const auto continues = [](unsigned char byte) { return (byte & 0xC0) == 0x80; };
  for (std::size_t from = 0; from < marked.size(); ++from) {
    if (continues(marked[from])) continue;
    std::uint64_t hash = counted_start ^ counted_golden;  // apart from the words
    std::size_t points = 0;
    for (std::size_t i = from; i < marked.size() && points < options_.parts;) {
      do hash = (hash ^ marked[i++]) * counted_prime;
      while (i < marked.size() && continues(marked[i]));
      if (++points >= options_.parts_from) hashes.parts.push_back(mixed_hash(hash));
    }
  }
}

SOMA_INLINE void CountedFeatures::hash(std::string_view text, Hashes& hashes) const {
  using namespace detail;
  hashes.clear();
  std::vector<unsigned char> word;
  std::uint64_t hash = counted_start;
  const auto end_word = [&] {
    if (word.empty()) return;
    hashes.tokens.push_back(mixed_hash(hash));
    hashes.characters.push_back(0);
    if (options_.parts != 0) hash_word(word.data(), word.data() + word.size(), hashes);
    word.clear();
    hash = counted_start;
  };
  const auto add = [&](unsigned char byte) {
    word.push_back(byte);
    hash = (hash ^ byte) * counted_prime;
  };
  const auto add_alone = [&](const std::string& bytes, bool character) {
    end_word();
    std::uint64_t alone = counted_start;
    for (const char byte : bytes)
      alone = (alone ^ static_cast<unsigned char>(byte)) * counted_prime;
    hashes.tokens.push_back(mixed_hash(alone));
    hashes.characters.push_back(character ? 1 : 0);
  };
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      ++at;
      const auto low = static_cast<unsigned char>(byte | 0x20);
      if (low >= 'a' && low <= 'z')
        add(low);
      else if (byte >= '0' && byte <= '9')
        add(byte);
      else if (byte <= 0x20)
        end_word();
      else
        add_alone(std::string(1, static_cast<char>(byte)), false);
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) {  // bytes that are no UTF-8 stay what they are
      for (std::uint32_t i = 0; i < point.bytes; ++i) add(static_cast<unsigned char>(text[at + i]));
      at += point.bytes;
      continue;
    }
    at += point.bytes;
    bytes.clear();
    append_utf8(bytes, lower(point.value));
    if (is_whitespace(point.value))
      end_word();
    else if (is_punctuation(point.value))
      add_alone(bytes, false);
    else if (is_unspaced(point.value))
      add_alone(bytes, true);
    else
      for (const char part : bytes) add(static_cast<unsigned char>(part));
  }
  end_word();
  // Runs. Characters of unspaced scripts have triples as well.
  hashes.words = hashes.tokens;
  const std::size_t count = hashes.tokens.size();
  bool any_characters = false;
  for (const std::uint8_t one : hashes.characters) any_characters = any_characters || one != 0;
  const std::size_t most =
      any_characters ? (std::max)(options_.ngrams, std::size_t{3}) : options_.ngrams;
  for (std::size_t size = 2; size <= most; ++size)
    for (std::size_t i = 0; i + size <= count; ++i) {
      if (size > options_.ngrams &&
          std::find(hashes.characters.begin() + static_cast<std::ptrdiff_t>(i),
                    hashes.characters.begin() + static_cast<std::ptrdiff_t>(i + size),
                    0) != hashes.characters.begin() + static_cast<std::ptrdiff_t>(i + size))
        continue;
      std::uint64_t run = mixed_hash(counted_start + size);
      for (std::size_t k = i; k < i + size; ++k)
        run = mixed_hash(run * counted_golden + hashes.tokens[k]);
      hashes.words.push_back(run);
    }
}

SOMA_INLINE FeatureCounts CountedFeatures::learn(Context& context,
                                                 std::span<const std::string_view> texts) {
  using namespace detail;
  DistinctHashes distinct;
  // Blocks of texts are hashed on all threads; numbers are given in the order of the texts.
  std::vector<std::int32_t> numbers;
  std::vector<std::size_t> word_ends, part_ends;
  constexpr std::size_t block_bytes = std::size_t{1} << 20;
  for (std::size_t begin = 0; begin < texts.size();) {
    std::size_t end = begin, bytes = 0;
    for (; end < texts.size() && bytes < block_bytes; ++end) bytes += texts[end].size() + 16;
    const soma::detail::UnevenRanges ranges(
        context, end - begin, std::size_t{1} << 15,
        [&](std::size_t i) { return texts[begin + i].size() + 16; });
    std::vector<std::vector<Hashes>> hashed(ranges.tasks());
    ranges.run(context, [&](std::size_t from, std::size_t to, std::size_t task) {
      for (std::size_t i = from; i < to; ++i) hash(texts[begin + i], hashed[task].emplace_back());
    });
    std::size_t text = begin;
    for (std::vector<Hashes>& part : hashed)
      for (Hashes& one : part) {
        const auto give = [&](const std::vector<std::uint64_t>& hashes, bool of_part) {
          for (std::size_t i = 0; i < hashes.size(); ++i) {
            if (i + 12 < hashes.size()) distinct.fetch(hashes[i + 12]);
            numbers.push_back(distinct.add(hashes[i], static_cast<std::int32_t>(text), of_part));
          }
        };
        give(one.words, false);
        word_ends.push_back(numbers.size());
        give(one.parts, true);
        part_ends.push_back(numbers.size());
        one = {};
        ++text;
      }
    begin = end;
  }
  // Rows by frequency.
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < distinct.hashes.size(); ++i)
    if (!options_.drop_single || distinct.texts[i] > 1)
      order.push_back(static_cast<std::int32_t>(i));
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return distinct.texts[static_cast<std::size_t>(a)] >
           distinct.texts[static_cast<std::size_t>(b)];
  });
  table_ = {};
  table_.bits = (std::max)(4, static_cast<std::int32_t>(std::bit_width(2 * order.size())));
  slots_.assign(std::size_t{1} << table_.bits, Slot{});
  std::vector<std::int32_t> row_of(distinct.hashes.size(), -1);
  for (const std::int32_t number : order) {
    const auto i = static_cast<std::size_t>(number);
    const std::int32_t row = insert(distinct.hashes[i]);
    row_of[i] = row;
    if (static_cast<std::size_t>(row) == table_.of_part.size())
      table_.of_part.push_back(distinct.parts[i]);
  }
  table_.idf.assign(rows(), 1.0f);
  table_.g.assign(rows(), 1.0f);

  FeatureCounts counts;
  counts.begins.reserve(texts.size() + 1);
  SmallCounter counter;
  std::size_t at = 0;
  for (std::size_t text = 0; text < texts.size(); ++text) {
    float unknown[2] = {};
    for (int kind = 0; kind < 2; ++kind) {
      const std::size_t end = kind == 0 ? word_ends[text] : part_ends[text];
      counter.begin(end - at);
      for (; at < end; ++at) {
        const std::int32_t row = row_of[static_cast<std::size_t>(numbers[at])];
        // Unknown features count one by one, beside the rows.
        counter.add(row >= 0 ? static_cast<std::uint64_t>(row)
                             : (std::uint64_t{1} << 40) + static_cast<std::uint64_t>(numbers[at]));
      }
      counter.for_each([&](std::uint64_t key, std::uint32_t count) {
        const float damp = damped(count);
        if (key >> 40 != 0) {
          unknown[kind] += damp * damp;
          return;
        }
        counts.rows.push_back(static_cast<std::int32_t>(key));
        counts.counts.push_back(damp);
      });
    }
    counts.unknown_words.push_back(unknown[0]);
    counts.unknown_parts.push_back(unknown[1]);
    counts.begins.push_back(static_cast<std::int64_t>(counts.rows.size()));
  }
  return counts;
}

SOMA_INLINE void CountedFeatures::weigh(const FeatureCounts& counts,
                                        std::span<const std::int64_t> label_begins,
                                        std::span<const std::int32_t> labels, std::size_t classes,
                                        std::span<const std::uint8_t> used) {
  std::vector<std::uint32_t> texts(rows());
  double n = 0;
  for (std::size_t text = 0; text < counts.texts(); ++text) {
    if (used[text] == 0) continue;
    n += 1;
    for (auto i = counts.begins[text]; i < counts.begins[text + 1]; ++i)
      ++texts[static_cast<std::size_t>(counts.rows[static_cast<std::size_t>(i)])];
  }
  const auto idf = [&](double df) {
    return static_cast<float>(portable_log((1 + n) / (1 + df)) + 1);
  };
  table_.unknown_idf = idf(1);
  // Frequent rows come first, and many have the same number of texts.
  std::uint32_t before = 0;
  float last = 0;
  for (std::size_t row = 0; row < rows(); ++row) {
    if (texts[row] != before) last = idf(static_cast<double>(before = texts[row]));
    table_.idf[row] = texts[row] == 0 ? 0.0f : last;
  }
  if (options_.strength != 0) weigh_classes(counts, label_begins, labels, classes, used);
}

// g of each row. The sum over classes of p r^2 is that of classes without the feature, by sums over
// all classes, with corrections for the classes that have it.
SOMA_INLINE void CountedFeatures::weigh_classes(const FeatureCounts& counts,
                                                std::span<const std::int64_t> label_begins,
                                                std::span<const std::int32_t> labels,
                                                std::size_t classes,
                                                std::span<const std::uint8_t> used) {
  constexpr double a = 0.3;
  std::vector<std::int64_t> begins(rows() + 1);
  std::vector<double> in_class(classes);
  double all = 0;
  for (std::size_t text = 0; text < counts.texts(); ++text) {
    if (used[text] == 0) continue;
    const auto size = static_cast<double>(counts.begins[text + 1] - counts.begins[text]);
    all += size;
    for (auto k = label_begins[text]; k < label_begins[text + 1]; ++k)
      in_class[static_cast<std::size_t>(labels[static_cast<std::size_t>(k)])] += size;
    for (auto i = counts.begins[text]; i < counts.begins[text + 1]; ++i)
      ++begins[static_cast<std::size_t>(counts.rows[static_cast<std::size_t>(i)]) + 1];
  }
  for (std::size_t row = 0; row < rows(); ++row) begins[row + 1] += begins[row];
  std::vector<std::int32_t> texts(static_cast<std::size_t>(begins.back()));
  {
    std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
    for (std::size_t text = 0; text < counts.texts(); ++text)
      if (used[text] != 0)
        for (auto i = counts.begins[text]; i < counts.begins[text + 1]; ++i)
          texts[static_cast<std::size_t>(
              next[static_cast<std::size_t>(counts.rows[static_cast<std::size_t>(i)])]++)] =
              static_cast<std::int32_t>(text);
  }
  // q = ln(K / (N - K)) of each class that has rows.
  std::vector<double> q(classes);
  double count = 0, sum = 0, squares = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    if (in_class[c] <= 0 || in_class[c] >= all) continue;
    q[c] = portable_log(in_class[c] / (all - in_class[c]));
    count += 1;
    sum += q[c];
    squares += q[c] * q[c];
  }
  const auto c_all = static_cast<double>(classes);
  std::vector<std::uint32_t> k(classes);
  std::vector<std::int32_t> touched;
  // g depends on few numbers: rows of one text with one label have the same for the same class.
  std::vector<float> of_single(classes, -1.0f);
  for (std::size_t row = 0; row < rows(); ++row) {
    const auto m = static_cast<double>(begins[row + 1] - begins[row]);
    if (m == 0) continue;
    touched.clear();
    for (auto i = begins[row]; i < begins[row + 1]; ++i) {
      const auto text = static_cast<std::size_t>(texts[static_cast<std::size_t>(i)]);
      for (auto l = label_begins[text]; l < label_begins[text + 1]; ++l) {
        const std::int32_t label = labels[static_cast<std::size_t>(l)];
        if (k[static_cast<std::size_t>(label)]++ == 0) touched.push_back(label);
      }
    }
    const bool single = m == 1 && touched.size() == 1;
    if (single && of_single[static_cast<std::size_t>(touched.front())] >= 0) {
      table_.g[row] = of_single[static_cast<std::size_t>(touched.front())];
      k[static_cast<std::size_t>(touched.front())] = 0;
      continue;
    }
    const double share = a / (m + a * c_all);
    const double odds = portable_log(a / (m + a * (c_all - 1)));
    double total = share * (count * odds * odds - 2 * odds * sum + squares);
    for (const std::int32_t label : touched) {
      const auto c = static_cast<std::size_t>(label);
      const auto own = static_cast<double>(k[c]);
      k[c] = 0;
      if (in_class[c] <= 0 || in_class[c] >= all) continue;
      const double rest = odds - q[c];
      const double r = portable_log((own + a) / (m - own + a * (c_all - 1))) - q[c];
      total += (own + a) / (m + a * c_all) * r * r - share * rest * rest;
    }
    table_.g[row] = static_cast<float>(
        total <= 0 ? 0.0 : portable_exp(portable_log(total) * options_.strength / 2));
    if (single) of_single[static_cast<std::size_t>(touched.front())] = table_.g[row];
  }
}

SOMA_INLINE void CountedFeatures::append(const FeatureCounts& counts, std::size_t text,
                                         FeatureRows& to) const {
  const auto begin = static_cast<std::size_t>(counts.begins[text]);
  const auto end = static_cast<std::size_t>(counts.begins[text + 1]);
  const double unknown =
      static_cast<double>(table_.unknown_idf) * static_cast<double>(table_.unknown_idf);
  double known[2] = {};
  double whole[2] = {static_cast<double>(counts.unknown_words[text]) * unknown,
                     static_cast<double>(counts.unknown_parts[text]) * unknown};
  for (std::size_t i = begin; i < end; ++i) {
    const auto row = static_cast<std::size_t>(counts.rows[i]);
    const bool seen = table_.idf[row] > 0;
    const double value = static_cast<double>(counts.counts[i]) *
                         static_cast<double>(seen ? table_.idf[row] : table_.unknown_idf);
    whole[table_.of_part[row]] += value * value;
    if (seen) known[table_.of_part[row]] += value * value;
  }
  // Lengths: 1 for the words, part_weight for the parts, 1 in all.
  const double lengths[2] = {1, options_.part_weight};
  double scale[2] = {}, all = 0, share = 0;
  for (int kind = 0; kind < 2; ++kind) {
    if (whole[kind] <= 0) continue;
    scale[kind] = lengths[kind] / std::sqrt(whole[kind]);
    all += lengths[kind] * lengths[kind];
    share += known[kind] * scale[kind] * scale[kind];
  }
  const double m = all > 0 ? std::sqrt(share / all) : 0;
  const std::size_t first = to.values.size();
  double told = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto row = static_cast<std::size_t>(counts.rows[i]);
    const double value = static_cast<double>(counts.counts[i]) *
                         static_cast<double>(table_.idf[row]) * scale[table_.of_part[row]] *
                         static_cast<double>(table_.g[row]);
    if (value == 0) continue;
    told += value * value;
    to.features.push_back(counts.rows[i]);
    to.values.push_back(static_cast<float>(value));
  }
  if (told > 0) {
    const auto factor = static_cast<float>(m / std::sqrt(told));
    for (std::size_t i = first; i < to.values.size(); ++i) to.values[i] *= factor;
  }
  to.begins.push_back(static_cast<std::int64_t>(to.values.size()));
  to.known.push_back(static_cast<float>(m));
}

SOMA_INLINE FeatureRows CountedFeatures::values(const FeatureCounts& counts,
                                                std::span<const std::uint8_t> used,
                                                std::uint8_t wanted) const {
  FeatureRows rows;
  for (std::size_t text = 0; text < counts.texts(); ++text)
    if (used[text] == wanted) append(counts, text, rows);
  return rows;
}

SOMA_INLINE std::size_t CountedFeatures::occurrences(std::string_view text) const {
  Hashes hashes;
  hash(text, hashes);
  return hashes.words.size() + hashes.parts.size();
}

SOMA_INLINE void CountedFeatures::add(std::string_view text, FeatureRows& to) const {
  using namespace detail;
  Hashes hashes;
  hash(text, hashes);
  FeatureCounts counts;
  SmallCounter counter;
  float unknown[2] = {};
  for (int kind = 0; kind < 2; ++kind) {
    const std::vector<std::uint64_t>& own = kind == 0 ? hashes.words : hashes.parts;
    counter.begin(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (i + 8 < own.size()) fetch_soon(&slots_[own[i + 8] >> (64 - table_.bits)]);
      const std::int32_t row = find(own[i]);
      counter.add(row >= 0 ? static_cast<std::uint64_t>(row) : own[i] | (std::uint64_t{1} << 63));
    }
    counter.for_each([&](std::uint64_t key, std::uint32_t count) {
      const float damp = damped(count);
      if (key >> 40 != 0) {
        unknown[kind] += damp * damp;
        return;
      }
      counts.rows.push_back(static_cast<std::int32_t>(key));
      counts.counts.push_back(damp);
    });
  }
  counts.unknown_words.push_back(unknown[0]);
  counts.unknown_parts.push_back(unknown[1]);
  counts.begins.push_back(static_cast<std::int64_t>(counts.rows.size()));
  append(counts, 0, to);
}

}  // namespace SOMA_NAMESPACE::text
