#pragma once
// Encoder: a tokenizer as programs see it that take any kind: text to ids and back.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

class Encoder {
 public:
  static constexpr std::int32_t absent = -1;

  virtual ~Encoder() = default;

  // Appends the ids of a text, without special tokens around it. Returns the number of invalid
  // UTF-8 sequences, which were read as U+FFFD.
  virtual std::size_t append_ids(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  // The text of the ids; special tokens are left out. Error text.token_id.
  virtual std::string text_of(std::span<const std::int32_t> ids) const = 0;

  // Ids are less than this number.
  virtual std::size_t id_count() const = 0;
  virtual bool is_special(std::int32_t id) const = 0;

 protected:
  Encoder() = default;
  Encoder(const Encoder&) = default;
  Encoder& operator=(const Encoder&) = default;
};

}  // namespace SOMA_NAMESPACE::text
