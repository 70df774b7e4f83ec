// Tables of limits, one rule a row. check() runs each row and compares the error's id, instruction,
// operand and limit; every message names the line of the instruction.
#pragma once

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/test_core.hpp"
#include "support/errors.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace soma_test {

// Tiles for the rows.
struct Tiles {
  TestCore test;
  nc::Core& core = test.core;
  nc::Tile w = bf16(128, 128), x = bf16(128, 512), x513 = bf16(128, 513), w129 = bf16(128, 129);
  nc::Tile f = fp32(128, 512), g = fp32(128, 512), column = fp32(128, 1), eight = fp32(128, 8);
  nc::Tile rough = bf16(128, 1), tf = core.sbuf.tile(soma::DType::tf32, 128, 1);
  nc::Tile ints = core.sbuf.tile(soma::DType::int32, 128, 512),
           bytes = core.sbuf.tile(soma::DType::uint8, 128, 512);
  nc::Tile signed_bytes = core.sbuf.tile(soma::DType::int8, 128, 512);
  nc::Tile sums = core.psum.tile(128, 512), other = core.psum.tile(128, 1024, soma::DType::bf16);
  soma::Tensor table = soma::Tensor::zeros(test.context, soma::Shape{1000, 512});

  nc::Tile bf16(std::size_t partitions, std::size_t columns) {
    return core.sbuf.tile(soma::DType::bf16, partitions, columns);
  }
  nc::Tile fp32(std::size_t partitions, std::size_t columns) {
    return core.sbuf.tile(soma::DType::fp32, partitions, columns);
  }
};

struct Row {
  std::string start;  // the message's start: "<instruction>: <operand>"
  std::string limit;
  void (*run)(Tiles&);
  std::string id = "neuroncore.rule_broken";
};

inline void check(const std::vector<Row>& rows) {
  Tiles tiles;
  for (const Row& row : rows) {
    const auto run = [&] { row.run(tiles); };
    const std::string message = message_of(run);
    INFO(message << ", wanted " << row.start << " ... " << row.limit);
    CHECK(id_of(run) == row.id);
    const std::size_t colon = row.start.find(": ");
    const std::string place = row.start.substr(0, colon) + " at ";
    CHECK(message.starts_with(place));
    CHECK((message.find("_test.cpp:") < message.find(": ") ||
           message.find("limits.hpp:") < message.find(": ")));
    // The operand, and in parentheses its tile.
    const std::string_view argument = std::string_view(message).substr(message.find(": "));
    CHECK(argument.starts_with(row.start.substr(colon)));
    CHECK((argument.substr(row.start.size() - colon).starts_with(" is ") ||
           argument.substr(row.start.size() - colon).starts_with(" (tile of ")));
    CHECK(message.find(row.limit, message.find(", wanted ")) != std::string::npos);
  }
}

inline const std::string undefined = "neuroncore.undefined", undisclosed = "neuroncore.undisclosed",
                         not_implemented = "neuroncore.not_implemented",
                         generation = "neuroncore.generation";

}  // namespace soma_test
