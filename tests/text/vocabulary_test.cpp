// Vocabularies: what vocab.txt may look like, and what is refused.

#include <soma/text/vocabulary.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

using namespace soma::text;
using namespace soma_test;

namespace {

std::string refusal(std::string_view content) {
  return message_of([&] { Vocabulary::from_text(content, "v.txt"); });
}

}  // namespace

TEST_CASE("pieces have the numbers of their lines", "[unit][text][vocabulary]") {
  for (const char* content : {"[PAD]\nthe\n##s\n", "[PAD]\nthe\n##s", "[PAD]\r\nthe\r\n##s\r\n"}) {
    const Vocabulary vocabulary = Vocabulary::from_text(content);
    REQUIRE(vocabulary.size() == 3);
    CHECK(vocabulary.piece(0) == "[PAD]");
    CHECK(vocabulary.piece(2) == "##s");
    CHECK(vocabulary.find("the") == 1);
    CHECK(vocabulary.find("##s") == 2);
    CHECK(vocabulary.find("s") == Vocabulary::absent);
    CHECK(vocabulary.find("") == Vocabulary::absent);
    CHECK(vocabulary.longest() == 5);
    CHECK(vocabulary.to_text() == "[PAD]\nthe\n##s\n");
  }
}

TEST_CASE("a large vocabulary finds each of its pieces, whole or joined",
          "[unit][text][vocabulary]") {
  std::vector<std::string> pieces;
  for (int i = 0; i < 40000; ++i) pieces.push_back("##" + std::to_string(i * 7919));
  const Vocabulary vocabulary = Vocabulary::from_pieces(pieces);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const std::string_view tail = std::string_view(pieces[i]).substr(2);
    const PieceHash hash = PieceHash().add("##").add(tail);
    if (vocabulary.find(pieces[i]) != id || vocabulary.piece(id) != pieces[i] ||
        vocabulary.find_joined("##", tail, hash) != id ||
        vocabulary.find(pieces[i] + "x") != Vocabulary::absent)
      ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(Vocabulary::from_text(vocabulary.to_text()) == vocabulary);
}

TEST_CASE("vocabularies that cannot be are refused", "[unit][text][vocabulary]") {
  CHECK(refusal("") ==
        "Vocabulary: source is \"v.txt\", which has no pieces, wanted different pieces of UTF-8, "
        "one a line [text.vocabulary]");
  CHECK(refusal("a\nb\na\n") ==
        "Vocabulary: source is \"v.txt\", whose piece 2 is \"a\", as piece 0, wanted different "
        "pieces of UTF-8, one a line [text.vocabulary]");
  CHECK(refusal("a\n\nb\n").find("whose piece 1 is empty") != std::string::npos);
  CHECK(refusal("a\n\n").find("whose piece 1 is empty") != std::string::npos);
  CHECK(refusal("a\nb\xE9\n").find("whose piece 1 is no UTF-8") != std::string::npos);
  CHECK(refusal("a\rb\n").find("whose piece 0 holds a line break") != std::string::npos);
  const Vocabulary vocabulary = Vocabulary::from_text("a\nb");
  CHECK(message_of([&] { vocabulary.piece(2); }) ==
        "Vocabulary: id is 2, wanted 0 to 1 [text.token_id]");
  CHECK(id_of([&] { vocabulary.piece(-1); }) == "text.token_id");
}

TEST_CASE("files that cannot be read are named", "[unit][text][vocabulary]") {
  CHECK(message_of([] { Vocabulary::read("/no/such/vocab.txt"); }) ==
        "Vocabulary: file is \"/no/such/vocab.txt\" (cannot open: No such file or directory), "
        "wanted a file that can be read [file.read]");
  const std::string folder = std::filesystem::temp_directory_path().string();
  CHECK(message_of([&] { Vocabulary::read(folder); }).find("not a regular file") !=
        std::string::npos);
  // One that nobody writes to would be waited for.
  const std::string pipe = folder + "/soma_pipe_" + std::to_string(::getpid());
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of([&] { Vocabulary::read(pipe); }).find("not a regular file") !=
        std::string::npos);
  std::filesystem::remove(pipe);
  CHECK(id_of([] { Vocabulary::read(std::string_view("a\0b", 3)); }) == "file.read");
}
