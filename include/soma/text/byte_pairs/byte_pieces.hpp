#pragma once
// BytePieces: the tokens of a byte-level vocabulary, which are any bytes, by id and by content.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// Immutable once filled: any number of threads may read it.
class BytePieces {
 public:
  static constexpr std::int32_t absent = -1;

  // The pieces by id; an empty one is an id without a piece. Of two equal pieces the last is found.
  explicit BytePieces(const std::vector<std::string>& pieces = {});

  std::size_t size() const;
  // Empty if the id has no piece; `id` is less than size().
  std::string_view piece(std::int32_t id) const;
  // The id of the piece, or `absent`. Linear in its bytes.
  std::int32_t find(std::string_view bytes) const;

 private:
  static std::uint64_t hash(std::string_view bytes);
  std::size_t slot_of(std::string_view bytes, std::uint64_t hash) const;

  struct Slot {
    std::uint32_t mark = 0;  // half of the hash: most slots of other pieces end here
    std::int32_t id = absent;
  };

  std::string pool_;                  // all pieces, end to end
  std::vector<std::size_t> ends_{0};  // piece i lies in [ends_[i], ends_[i + 1])
  std::vector<Slot> slots_;           // open addressing, a power of two
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/byte_pieces.ipp>
#endif
