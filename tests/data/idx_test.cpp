// IDX files: a whole one, and everything that can be wrong with one.

#include <soma/data/idx.hpp>
#include <soma/soma.hpp>

#include "support/errors.hpp"

#include "catch.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

using namespace soma;
using soma_test::id_of;

namespace {

std::string idx(const std::vector<unsigned>& sizes, std::size_t elements, char type = 8) {
  std::string text{0, 0, type, static_cast<char>(sizes.size())};
  for (const unsigned size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(size >> shift));
  for (std::size_t i = 0; i < elements; ++i) text.push_back(static_cast<char>(i * 37));
  return text;
}

}  // namespace

TEST_CASE("IDX files are read, and refused where they are not what they say", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::string path =
      (std::filesystem::temp_directory_path() / ("soma_idx_" + std::to_string(::getpid())))
          .string();
  const auto load = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    return data::load_idx(context, path);
  };
  const Tensor images = load(idx({3, 2, 4}, 24));
  CHECK(images.describe() == "[3, 2, 4] uint8");
  for (std::size_t i = 0; i < 24; ++i)
    CHECK(images.span<std::uint8_t>()[i] == static_cast<std::uint8_t>(i * 37));
  CHECK(load(idx({0, 5}, 0)).shape() == Shape{0, 5});
  CHECK(load(idx({300}, 300)).shape() == Shape{300});
  const std::string whole = idx({3, 2, 4}, 24);
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(id_of([&] { load(whole.substr(0, length)); }) == "file.read");
  for (const std::string& bad :
       {whole + '\0', idx({3, 2, 4}, 24, 13), idx({}, 1), idx({1, 1, 1, 1, 1, 1, 1, 1, 1}, 1),
        idx({4294967295u, 4294967295u, 4294967295u}, 8), idx({0, 4294967295u}, 8),
        std::string("\x1f\x8b\x08\x00 packed", 11), "P5 " + whole})
    CHECK(id_of([&] { load(bad); }) == "file.read");
  std::filesystem::remove(path);
  CHECK(id_of([&] { data::load_idx(context, path); }) == "file.read");
}
