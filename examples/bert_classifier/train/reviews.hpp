// Made-up reviews in English to learn from: the meaning of the text decides the label, and no list
// of good and bad words reveals it.
//
// A review is a pure function of (seed, index, split). One or two of its sentences hold a verdict,
// the others are neutral. A verdict is an adjective or a verb that praises or blames, one in five
// denied ("nothing about the handle is really awful"); in a quarter of the sentences a second
// verdict of the opposite sign stands beside the one that counts: "A, but B" and "although A, B"
// mean B, and so does "B, although A". All verdicts that count have the review's sign. Neutral
// sentences deny things too. Reviews have 8 to 60 words, as many of them are good as bad, and both
// come in the same sentences.
//
// Content of the validation split that training never shows:
//   verdicts  a verdict's frame, intensifier and word together ("I did not find _ quite clever")
//             belong to one of the splits: a quarter of all such combinations is held out, and
//             held-out reviews are made of these only
//   words     a fifth of all products, brands, people and towns are in held-out reviews only, which
//             have no others. (Halves of names, adjectives, verbs, aspects, and the words of
//             sentences are shared.)
#pragma once

#include "bert_classifier/train/review_words.hpp"

#include <soma/numeric/draw_sequence.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reviews {

enum class Split : std::uint8_t { train, held_out };

struct Review {
  std::string text;
  int label = 0;  // 1: praises
};

inline constexpr std::size_t least_words = 8, most_words = 60;

inline std::size_t count_words(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, ' ')) + 1;
}

class Writer {
 public:
  Writer(const soma::Draw& draw, Split split) : draws_(draw), split_(split) {}

  Review write(double label_noise) {
    const bool praises = chance(0.5);
    std::vector<std::string> sentences{verdict_sentence(praises)};
    if (chance(0.4)) sentences.push_back(verdict_sentence(praises));
    std::size_t length = 0;
    for (const std::string& sentence : sentences) length += count_words(sentence);
    const std::size_t neutral = below(2);
    for (std::size_t i = 0; i < neutral || length < least_words; ++i) {
      std::string sentence = fill(pick(words::neutral_sentences), {});
      if (length + count_words(sentence) > most_words) break;
      length += count_words(sentence);
      const std::size_t at = below(sentences.size() + 1);
      sentences.insert(sentences.begin() + static_cast<std::ptrdiff_t>(at), std::move(sentence));
    }
    Review review;
    for (std::string& sentence : sentences) {
      if (sentence[0] >= 'a' && sentence[0] <= 'z')
        sentence[0] = static_cast<char>(sentence[0] - 32);
      if (!review.text.empty()) review.text.push_back(' ');
      review.text.append(sentence).push_back('.');
    }
    review.label = (praises != chance(label_noise)) ? 1 : 0;
    return review;
  }

 private:
  bool chance(double probability) { return draws_.unit() < probability; }

  std::uint32_t below(std::size_t count) { return draws_.below(static_cast<std::uint32_t>(count)); }
  std::string_view pick(std::span<const std::string_view> table) {
    return table[below(table.size())];
  }
  // Two halves from two lists whose combination belongs to this split; each half occurs in both
  // splits.
  template <class Heads, class Tails>
  std::string name(const Heads& heads, const Tails& tails) {
    while (true) {
      const std::size_t head = below(std::size(heads)), tail = below(std::size(tails));
      if (((head + tail) % 5 == 0) == (split_ == Split::held_out))
        return std::string(heads[head]).append(tails[tail]);
    }
  }
  std::string product() {
    if (chance(0.5)) return name(words::product_heads, words::product_tails);
    while (true) {
      const std::size_t i = below(std::size(words::products));
      if ((i % 5 == 0) == (split_ == Split::held_out)) return std::string(words::products[i]);
    }
  }
  std::string person() { return name(words::person_heads, words::person_tails); }
  std::string brand() { return name(words::brand_heads, words::brand_tails); }
  std::string town() { return name(words::town_heads, words::town_tails); }

  struct Parts {
    std::string subject{}, judgement{}, base{}, past{};
  };

  std::string part(char mark, const Parts& parts) {
    switch (mark) {
      case 'a':
        return std::string(pick(words::aspects));
      case 'b':
        return brand();
      case 'p':
        return product();
      case 'n':
        return person();
      case 't':
        return town();
      case 'w':
        return std::string(pick(words::times));
      case 'r':
        return std::string(pick(words::relations));
      case 's':
        return parts.subject;
      case 'x':
        return parts.judgement;
      case 'i':
        return parts.base;
      default:
        return parts.past;  // v
    }
  }
  std::string fill(std::string_view pattern, const Parts& parts) {
    std::string text;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] == '%')
        text += part(pattern[++i], parts);
      else
        text.push_back(pattern[i]);
    }
    return text;
  }

  std::string subject() {
    static constexpr std::string_view patterns[] = {"the %a",    "the %a of the %p",  "the %p",
                                                    "the %b %p", "the %a of %n's %p", "the %a",
                                                    "this %p"};
    return fill(pick(patterns), {});
  }

  // True if a combination of these numbers belongs to this split.
  bool belongs(std::uint32_t frame, std::uint32_t intensifier, std::uint32_t word) const {
    const soma::Draw draw{.seed = 0,
                          .stream = soma::stream_id("reviews", "combination"),
                          .step = frame,
                          .index = std::uint64_t{intensifier} << 32 | word};
    return (soma::random_word(draw) % 4 == 0) == (split_ == Split::held_out);
  }

  std::string verdict(bool praises) {
    const bool denied = chance(0.2);
    const bool good_word = praises != denied;
    if (chance(0.2)) {
      const auto& verbs = good_word ? words::praising_verbs : words::blaming_verbs;
      const auto& frames = denied ? words::denying_verb_frames : words::plain_verb_frames;
      while (true) {
        const std::uint32_t frame = below(std::size(frames));
        const std::uint32_t verb = below(std::size(verbs));
        if (!belongs(200 + 2 * frame + (denied ? 1 : 0), good_word ? 1 : 0, verb)) continue;
        return fill(frames[frame], {.subject = subject(),
                                    .base = std::string(verbs[verb].base),
                                    .past = std::string(verbs[verb].past)});
      }
    }
    const auto& adjectives = good_word ? words::praising : words::blaming;
    const auto& frames = denied ? words::denying_frames : words::plain_frames;
    while (true) {
      const std::uint32_t frame = below(std::size(frames));
      const std::uint32_t intensifier = below(std::size(words::intensifiers));
      const std::uint32_t adjective = below(std::size(adjectives));
      if (!belongs(2 * frame + (denied ? 1 : 0), intensifier, 2 * adjective + (good_word ? 1 : 0)))
        continue;
      std::string judgement(words::intensifiers[intensifier]);
      if (!judgement.empty()) judgement.push_back(' ');
      judgement.append(adjectives[adjective]);
      return fill(frames[frame], {.subject = subject(), .judgement = judgement});
    }
  }

  std::string verdict_sentence(bool praises) {
    std::string text;
    if (chance(0.25)) {
      const std::string outweighed = verdict(!praises), counting = verdict(praises);
      const std::string_view pattern = pick(words::contrasts);
      for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] == '%')
          text += pattern[++i] == '1' ? outweighed : counting;
        else
          text.push_back(pattern[i]);
      }
      return text;
    }
    if (chance(0.3)) text = fill(pick(words::neutral_openings), {}) + " ";
    return text + verdict(praises);
  }

  soma::DrawSequence draws_;
  Split split_;
};

// Reviews first .. first + count - 1 of the stream `seed`. A random share `label_noise` of the
// labels is wrong, as in data labelled by people. The two splits of one seed have nothing in
// common.
inline std::vector<Review> generate(std::size_t count, std::uint64_t seed, Split split,
                                    double label_noise = 0.02, std::uint64_t first = 0) {
  std::vector<Review> made;
  made.reserve(count);
  for (std::uint64_t index = first; index < first + count; ++index) {
    const soma::Draw draw{
        .seed = seed,
        .stream = soma::stream_id("reviews", split == Split::train ? "train" : "held_out"),
        .step = static_cast<std::uint32_t>(index),
        .index = (index >> 32) << 20};  // a review takes far fewer words
    made.push_back(Writer(draw, split).write(label_noise));
  }
  return made;
}

}  // namespace reviews
