#pragma once
// Code that attention's programs share: the heads of a batch, and blocks of matrices that stay in
// SBUF while they are multiplied by many other blocks.

#include <soma/ops/attention/attention.hpp>
#include <soma/programs/attention/pack_rows.hpp>
#include <soma/programs/product/operand.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::programs {

// Rows that attend to each other: the rows of one sequence, or of neighbouring sequences with at
// most 128 rows together. In such a group, scores between rows of different sequences are masked.
struct Pack {
  std::size_t row = 0, length = 0;         // rows of keys and values
  std::size_t query_row = 0, queries = 0;  // queries, results: the same, or one a sequence
  std::size_t first = 0, sequences = 0;    // numbers of sequences; empty ones count
};

// A pack and a head of it: rows, and columns in matrices [rows, channels].
struct Head {
  Pack pack;
  std::size_t number, column, width;
  // Logical indices of probabilities. A pack of at most 128 rows has one index for each query, with
  // the key in column 0; a larger pack has one index, for query 0 and key 0.
  const std::uint64_t* indices;

  // The words of probabilities from (query, key) on.
  neuroncore::DrawPosition position(Draw draw, std::size_t query, std::size_t key) const {
    draw.index = key;
    if (pack.length <= lanes) return {.draw = draw, .partition_indices = indices + query};
    draw.index += *indices + (query << 16);
    return {.draw = draw, .partition_step = std::size_t{1} << 16};
  }
};

// Calls begin(pack), then run(head) for each of its heads, `width` columns each, then end(pack).
template <class Begin, class Run, class End>
void for_each_head(const OperatorCall& call, std::size_t width, const Begin& begin, const Run& run,
                   const End& end) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  const bool drops = soma::detail::dropout_threshold(setting.dropout) != 0;
  const Sequences& sequences = call.sequences;
  for (std::size_t i = 0; i < sequences.count();) {
    Pack pack{.row = sequences.begin(i),
              .query_row = setting.first_rows ? i : sequences.begin(i),
              .first = i};
    do {
      pack.length += sequences.length(i++);
      ++pack.sequences;
    } while (i < sequences.count() && pack.length + sequences.length(i) <= lanes);
    if (pack.length == 0) continue;
    pack.queries = setting.first_rows ? pack.sequences : pack.length;
    begin(pack);
    for (std::size_t head = 0; head < setting.heads; ++head) {
      std::vector<std::uint64_t> indices;
      for (std::size_t s = pack.first; drops && s < pack.first + pack.sequences; ++s) {
        const std::size_t before = sequences.begin(s) - pack.row;
        const bool all = pack.length <= lanes && !setting.first_rows;
        const std::size_t queries = all ? sequences.length(s) : 1;
        for (std::size_t query = 0; query < queries; ++query)
          indices.push_back(attention_index(sequences.ordinal(s), head, query, 0) - before);
      }
      run(Head{.pack = pack,
               .number = head,
               .column = head * width,
               .width = width,
               .indices = indices.data()});
    }
    end(pack);
  }
}

// The host's kernels take a mask, queries that are other rows, and keys and values that several
// heads share; these programs do not. Error operator.value.
inline void check_attention_program(const soma::detail::AttentionInputs& inputs) {
  const auto refuse = [](std::string_view argument, const Tensor& tensor) {
    if (tensor.defined())
      fail(error_id::operator_value, "attention", argument, tensor.describe() + " on a NeuronCore",
           "no such input: only the host supports it");
  };
  refuse("mask", inputs.mask);
  refuse("query_begins", inputs.query_begins);
  if (inputs.group != 1)
    fail(error_id::operator_value, "attention", "key_value_heads",
         std::to_string(inputs.group) + " heads share keys and values, on a NeuronCore",
         "as many as heads: only the host supports fewer");
}

// The numbers that are added to the scores of a pack: 0, but between rows of different sequences,
// and for keys that are padding, a number so low that exp() gives 0. With causal attention, scores
// of later keys get that low number too, and padding is among the later keys. Which rows are
// padding is data: instructions do not depend on the amount of padding.
class PackMask {
 public:
  // `keys`: the most keys that scores have.
  PackMask(Core& core, const OperatorCall& call, std::size_t keys)
      : core_(core),
        causal_(call.attributes.as<AttentionSetting>().causal),
        padded_(call.sequences.padded() && !causal_),
        sequences_(call.sequences),
        numbers_(
            Tensor::empty(call.context, Shape{(std::max)(call.sequences.rows(), std::size_t{1})})),
        query_numbers_(numbers_),
        first_rows_(call.attributes.as<AttentionSetting>().first_rows) {
    if (first_rows_)
      query_numbers_ = Tensor::empty(call.context, Shape{call.sequences.count()});
    else if (padded_)
      query_numbers_ = Tensor::empty(call.context, Shape{numbers_.elements()});
    const std::size_t most = (std::min)(call.sequences.rows(), lanes);
    const std::size_t columns = padded_ ? (std::max)(keys, most) : most;
    row_ = core.sbuf.tile(DType::fp32, most, columns);
    column_ = core.sbuf.tile(DType::fp32, most, 1);
    mask_ = core.sbuf.tile(DType::fp32, most, most);
    masked_ = core.sbuf.tile(DType::fp32, most, causal_ ? keys : columns);
    if (causal_) earlier_ = core.sbuf.tile(DType::fp32, most, keys);
  }
  // The number of keys from `key` on that need products: queries from `query` on see no more.
  std::size_t keys_seen(std::size_t query, std::size_t queries, std::size_t key,
                        std::size_t keys) const {
    if (!causal_) return keys;
    return query + queries > key ? (std::min)(keys, query + queries - key) : 0;
  }
  void begin(const Pack& pack) {
    pack_ = pack;
    if (pack.sequences == 1 && !padded_) return;
    number_rows(pack);
    if (pack.length > lanes) return;  // apply() takes the numbers of the keys that it is given
    const HbmView keys = hbm(numbers_).columns(pack.row, pack.row + pack.length);
    const HbmView queries =
        hbm(query_numbers_).columns(pack.query_row, pack.query_row + pack.queries);
    const Tile row = row_.rows(0, pack.queries).columns(0, pack.length);
    const Tile column = column_.rows(0, pack.queries);
    core_.dma.load(row, keys.broadcast_rows(pack.queries)).load(column, queries.swap(0, 1));
    core_.vector.tensor_scalar(mask_.rows(0, pack.queries).columns(0, pack.length), row,
                               Alu::not_equal, column, Alu::multiply, -1e30f);
  }
  // Scores of queries and keys from these on, masked if necessary.
  Tile apply(const Tile& scores, std::size_t query, std::size_t key) {
    const std::size_t queries = scores.partitions(), keys = scores.free_size();
    const bool later = causal_ && key + keys > query + 1;
    if (pack_.sequences == 1 && !later && !padded_) return scores;
    const Tile masked = masked_.rows(0, queries).columns(0, keys);
    if (padded_ && pack_.length > lanes)
      hide_padding(masked, scores, key);
    else if (pack_.sequences == 1 && !padded_)
      core_.vector.copy(masked, scores);
    else
      core_.vector.tensor_tensor(masked, scores, mask_.rows(0, queries).columns(0, keys), Alu::add);
    if (!later) return masked;
    const Tile earlier = earlier_.rows(0, queries).columns(0, keys);
    core_.gpsimd.affine_select(
        earlier, masked,
        {.loops = {{-1, keys}},
         .offset = static_cast<std::int32_t>(query) - static_cast<std::int32_t>(key),
         .channel_multiplier = 1},
        -1e30f, Alu::greater_equal);
    return earlier;
  }

 private:
  // Which sequence of the pack a row is in, and -1 for keys that are padding: the plan of its
  // borders, in device memory.
  void number_rows(const Pack& pack) {
    float* numbers = numbers_.mutable_data<float>();
    float* query_numbers = query_numbers_.mutable_data<float>();
    for (std::size_t i = 0; i < pack.sequences; ++i) {
      const std::size_t sequence = pack.first + i, length = sequences_.length(sequence);
      const auto number = static_cast<float>(i);
      float* const keys = numbers + sequences_.begin(sequence);
      std::fill_n(keys, length, number);
      if (padded_) std::fill(keys + sequences_.used(sequence), keys + length, -1.0f);
      if (first_rows_)
        query_numbers[pack.query_row + i] = number;
      else if (padded_)
        std::fill_n(query_numbers + sequences_.begin(sequence), length, number);
    }
  }
  // Hides the padding of a sequence that is a pack of its own. The sequence's own rows have the
  // number 0.
  void hide_padding(const Tile& masked, const Tile& scores, std::size_t key) {
    const std::size_t first = pack_.row + key;
    const HbmView numbers = hbm(numbers_).columns(first, first + scores.free_size());
    const Tile row = row_.rows(0, scores.partitions()).columns(0, scores.free_size());
    core_.dma.load(row, numbers.broadcast_rows(scores.partitions()));
    core_.vector.tensor_scalar(row, row, Alu::not_equal, 0, Alu::multiply, -1e30f)
        .tensor_tensor(masked, scores, row, Alu::add);
  }

  Core& core_;
  bool causal_, padded_;
  const Sequences& sequences_;
  Tensor numbers_, query_numbers_;
  bool first_rows_;
  Tile row_, column_, mask_, masked_, earlier_;
  Pack pack_;
};

// Tiles of one size. They remember which block of a matrix they hold.
class Kept {
 public:
  Kept(Core& core, DType dtype, std::size_t partitions, std::size_t elements, std::size_t count)
      : entries_(core.context().heap()) {
    for (std::size_t i = 0; i < count; ++i)
      entries_.push_back({core.sbuf.tile(dtype, partitions, elements)});
  }
  // The tile of the block of `rows` rows that begins at (row, column); load(tile) fills it if no
  // tile has the block yet.
  template <class Load>
  const Tile& get(std::size_t row, std::size_t rows, std::size_t column, const Load& load) {
    for (const Entry& entry : entries_)
      if (entry.row == row && entry.rows == rows && entry.column == column) return entry.tile;
    Entry& entry = entries_[next_++ % entries_.size()];
    entry.row = row;
    entry.rows = rows;
    entry.column = column;
    load(entry.tile);
    return entry.tile;
  }

 private:
  struct Entry {
    Tile tile;
    std::size_t row = SIZE_MAX, rows = 0, column = SIZE_MAX;
  };
  HeapVector<Entry> entries_;
  std::size_t next_ = 0;
};

// Blocks of a matrix with its columns on the partitions, up to `most` rows and 512 columns. They
// are made from the rows of the pack if these are in SBUF.
class TurnedBlocks {
 public:
  TurnedBlocks(Core& core, OperandLoader& loader, const PackRows& pack, const HbmView& view,
               DType dtype, std::size_t most, std::size_t width, std::size_t count)
      : loader_(loader),
        pack_(pack),
        view_(view),
        kept_(core, dtype, (std::min)(width, lanes),
              blocks_of((std::min)(width, bank_columns)) * most, count) {}
  // Block b of 128 columns begins at b * rows.
  const Tile& get(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
    return kept_.get(row, rows, column, [&](const Tile& tile) {
      if (!pack_.used()) return loader_.load_from(view_, tile, row, rows, column, columns);
      loader_.turn(tile, rows, columns, [&](std::size_t at, std::size_t part) {
        return pack_.at(row + at, part, column, columns);
      });
    });
  }

 private:
  OperandLoader& loader_;
  const PackRows& pack_;
  HbmView view_;
  Kept kept_;
};

// Up to 128 rows and 512 columns of a matrix, not transposed: from the pack if it is in SBUF.
class RowBlocks {
 public:
  RowBlocks(Core& core, const PackRows& pack, const HbmView& view, DType dtype, std::size_t most,
            std::size_t width, std::size_t count)
      : core_(core),
        pack_(pack),
        view_(view),
        kept_(core, dtype, (std::min)(most, lanes), (std::min)(width, bank_columns), count) {}
  Tile get(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
    if (pack_.used()) return pack_.at(row, rows, column, columns);
    const auto part = [&](const Tile& tile) { return tile.rows(0, rows).columns(0, columns); };
    return part(kept_.get(row, rows, column, [&](const Tile& tile) {
      core_.dma.load(part(tile), view_.rows(row, row + rows).columns(column, column + columns));
    }));
  }

 private:
  Core& core_;
  const PackRows& pack_;
  HbmView view_;
  Kept kept_;
};

// Rows of a matrix, and the head's columns of the matrix from `column` on: scores are a b^T.
struct ScoreSide {
  TurnedBlocks& blocks;
  std::size_t row, rows, column;
};
inline void multiply_scores(Core& core, const Tile& scores, const ScoreSide& a, const ScoreSide& b,
                            std::size_t width) {
  using neuroncore::Accumulate;
  for_pieces(width, bank_columns, [&](std::size_t first, std::size_t columns) {
    const Tile& left = a.blocks.get(a.row, a.rows, a.column + first, columns);
    const Tile& right = b.blocks.get(b.row, b.rows, b.column + first, columns);
    for_pieces(columns, lanes, [&](std::size_t at, std::size_t part) {
      const std::size_t block = at / lanes;
      core.tensor.matmul(scores, left.rows(0, part).columns(block * a.rows, (block + 1) * a.rows),
                         right.rows(0, part).columns(block * b.rows, (block + 1) * b.rows),
                         first + at == 0 ? Accumulate::no : Accumulate::yes);
    });
  });
}

inline float score_scale(std::size_t width) { return 1.0f / std::sqrt(static_cast<float>(width)); }

// The factor for probabilities that dropout keeps.
inline float keep_scale(const DropoutSetting& setting) {
  if (soma::detail::dropout_threshold(setting) == 0) return 1;
  return static_cast<float>(1 / (1 - static_cast<double>(setting.probability)));
}

// The rows of the longest pack.
inline std::size_t longest_pack(const Sequences& sequences) {
  return (std::max)(sequences.longest(), (std::min)(sequences.rows(), lanes));
}

}  // namespace SOMA_NAMESPACE::programs
