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
  CHECK(refusal("\n\n").find("which has no pieces") != std::string::npos);
  const auto of_pieces = [](const std::vector<std::string>& pieces) {
    return message_of([&] { Vocabulary::from_pieces(pieces, "v.txt"); });
  };
  CHECK(of_pieces({"a", "b", "a"}) ==
        "Vocabulary: source is \"v.txt\", whose piece 2 is \"a\", as piece 0, wanted different "
        "pieces of UTF-8, one a line [text.vocabulary]");
  CHECK(of_pieces({"a", "", "b"}).find("whose piece 1 is empty") != std::string::npos);
  CHECK(of_pieces({"a", ""}).find("whose piece 1 is empty") != std::string::npos);
  CHECK(refusal("a\nb\xE9\n").find("whose piece 1 is no UTF-8") != std::string::npos);
  CHECK(refusal("a\rb\n").find("whose piece 0 holds a line break") != std::string::npos);
  const Vocabulary vocabulary = Vocabulary::from_text("a\nb");
  CHECK(message_of([&] { vocabulary.piece(2); }) ==
        "Vocabulary: id is 2, wanted 0 to 1 [text.token_id]");
  CHECK(id_of([&] { vocabulary.piece(-1); }) == "text.token_id");
}

TEST_CASE("lines that are empty or twice are taken as the usual libraries take them",
          "[unit][text][vocabulary]") {
  // An empty line is a number without a piece; of equal lines the last has the piece.
  const Vocabulary vocabulary = Vocabulary::from_text("a\n\nb\na\n\n\n");
  CHECK(vocabulary.size() == 4);
  CHECK(vocabulary.find("a") == 3);
  CHECK(vocabulary.find("b") == 2);
  CHECK(vocabulary.find("") == Vocabulary::absent);
  CHECK(vocabulary.piece(1).empty());
  CHECK(vocabulary.piece(0) == "a");
  CHECK_FALSE(vocabulary.is_piece(0));
  CHECK_FALSE(vocabulary.is_piece(1));
  CHECK(vocabulary.is_piece(3));
  CHECK(vocabulary.to_text() == "a\n\nb\na\n");
  CHECK(Vocabulary::from_text(vocabulary.to_text()) == vocabulary);

  // A token that was added is found by name, and is no piece of a word.
  const std::size_t added[] = {1, 3};
  const Vocabulary more = Vocabulary::from_list({"a", "new", "", "newer"}, added);
  CHECK(more.find("new") == 1);
  CHECK(more.find("newer") == 3);
  CHECK(more.find_joined("", "new", PieceHash().add("new")) == Vocabulary::absent);
  CHECK(more.is_added(3));
  CHECK_FALSE(more.is_added(0));
  CHECK_FALSE(more.is_piece(1));
  CHECK(more.longest() == 1);
  CHECK_FALSE(more == Vocabulary::from_list({"a", "new", "", "newer"}));
  CHECK(message_of([&] {
          Vocabulary::from_list({"a", "a"}, std::span(added).first(1));
        }).find("whose added token 1 is there twice") != std::string::npos);
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
