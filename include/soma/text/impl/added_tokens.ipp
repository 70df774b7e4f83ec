#pragma once
// The functions of added_tokens.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/added_tokens.hpp>

#include <soma/text/tokenizer_settings.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE AddedToken added_token(const SettingsReader& settings, const Json& entry,
                                   std::size_t id) {
  AddedToken token{.content = {}, .id = id};
  settings.read(entry, "content", token.content);
  settings.read(entry, "id", token.id);
  settings.check_token(entry, token.content);
  bool special = false;
  settings.read(entry, "special", special);
  if (!special)
    settings.refuse("whose added token " + soma::quoted(token.content) + " is not special");
  return token;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::vector<AddedToken> read_added_tokens(std::string_view content, bool& present,
                                                      std::string_view name) {
  const detail::SettingsReader settings("read_tokenizer_config", name);
  const detail::Json root = settings.parse(content);
  const detail::Json* all = settings.object(root, "added_tokens_decoder");
  present = all != nullptr;
  std::vector<AddedToken> tokens;
  if (all == nullptr) return tokens;
  for (const auto& [key, entry] : all->items()) {
    std::size_t id = 0;
    for (const char digit : key) {
      if (digit < '0' || digit > '9' || key.size() > 9)
        settings.refuse("whose added_tokens_decoder has the id " + soma::quoted(key));
      id = 10 * id + static_cast<std::size_t>(digit - '0');
    }
    tokens.push_back(detail::added_token(settings, entry, id));
  }
  return tokens;
}

SOMA_INLINE std::vector<AddedToken> read_added_tokens_map(std::string_view content,
                                                          const TokenizerOptions& options,
                                                          std::string_view name) {
  const detail::SettingsReader settings("read_added_tokens_map", name);
  const detail::Json root = settings.parse(content);
  std::vector<AddedToken> tokens;
  for (const auto& [token, id] : root.items()) {
    AddedToken added{.content = token, .id = 0};
    settings.read(root, token.c_str(), added.id);
    if (!detail::has_role(options, token) && !contains(options.more_special, token))
      settings.refuse("whose added token " + soma::quoted(token) + " is not special");
    tokens.push_back(std::move(added));
  }
  return tokens;
}

}  // namespace SOMA_NAMESPACE::text

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE std::size_t most_ids(std::size_t count) { return 2 * count + (std::size_t{1} << 16); }

SOMA_INLINE Vocabulary with_added(const SettingsReader& settings, const Vocabulary& vocabulary,
                                  const std::vector<AddedToken>& tokens) {
  std::vector<std::string_view> pieces;
  std::vector<std::size_t> added;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    pieces.push_back(vocabulary.piece(id));
    if (vocabulary.is_added(id)) added.push_back(i);
  }
  const std::size_t before = added.size();
  for (const AddedToken& token : tokens) {
    const std::string which = "whose added token " + soma::quoted(token.content);
    const std::int32_t known = vocabulary.find(token.content);
    const bool fits = token.id < pieces.size()
                          ? pieces[token.id].empty() || pieces[token.id] == token.content
                          : token.id < most_ids(pieces.size());
    if (token.content.empty() || !fits ||
        (known != Vocabulary::absent && static_cast<std::size_t>(known) != token.id))
      settings.refuse(
          which + " has the id " + std::to_string(token.id) +
          (known != Vocabulary::absent ? ", and its vocab gives it " + std::to_string(known)
           : token.id < pieces.size()  ? ", which its vocab gives " + soma::quoted(pieces[token.id])
                                       : ""));
    if (known != Vocabulary::absent) continue;
    if (token.id >= pieces.size()) pieces.resize(token.id + 1);
    pieces[token.id] = token.content;
    if (!contains(added, token.id)) added.push_back(token.id);
  }
  if (added.size() == before) return vocabulary;
  std::sort(added.begin(), added.end());
  return Vocabulary::from_list(pieces, added, settings.name());
}

SOMA_INLINE void add_special(TokenizerOptions& options, const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens)
    if (!has_role(options, token.content) && !contains(options.more_special, token.content))
      options.more_special.push_back(token.content);
}

}  // namespace SOMA_NAMESPACE::text::detail
