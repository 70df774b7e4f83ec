// The machine's numbers, and the table of the vendor's instructions.

#include <soma/neuroncore/order/instruction_table.hpp>

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

using namespace soma_test;
using nc::Opcode;
using soma::DType;

TEST_CASE("trn1 has the published sizes", "[unit][neuroncore]") {
  constexpr nc::Machine machine = nc::trn1();
  STATIC_REQUIRE(machine.partitions * machine.sbuf_partition_bytes == 24u << 20);
  STATIC_REQUIRE(machine.partitions * machine.psum_partition_bytes() == 2u << 20);
  STATIC_REQUIRE(machine.psum_bank_bytes / sizeof(float) == 512);
  STATIC_REQUIRE(machine.matmul_stationary_free == 128);
  STATIC_REQUIRE(machine.matmul_moving_free == 512);
  STATIC_REQUIRE(machine.bn_stats_free == 512);
  STATIC_REQUIRE(machine.sbuf_operand_free == 64 * 1024);
  STATIC_REQUIRE(machine.psum_operand_free == 4 * 1024);
  STATIC_REQUIRE(machine.transpose_vector == 32);
  STATIC_REQUIRE(machine.dma_engines == 16);
  STATIC_REQUIRE(machine.dma_semaphore_step == 16);
  // 128 * 128 multiply-adds a cycle are the 92 TFLOPS of the data sheet.
  CHECK(std::fabs(128 * 128 * 2 * machine.tensor_ghz / 1000 - 91.75) < 0.01);
}

TEST_CASE("trn1 has the published types and no others", "[unit][neuroncore]") {
  constexpr nc::Machine machine = nc::trn1();
  const std::set<DType> absent{DType::fp8_e4m3fn, DType::fp8_e4m3fnuz, DType::fp8_e5m2fnuz,
                               DType::e8m0, DType::int64};
  TestCore test;
  for (const DType dtype : soma::dtypes) {
    INFO(std::string(to_string(dtype)));
    CHECK(machine.has(dtype) == !absent.contains(dtype));
    nc::Core::Scope scope(test.core);
    if (machine.has(dtype))
      CHECK(test.core.sbuf.tile(dtype, 1, 1).dtype() == dtype);
    else
      CHECK(id_of([&] { test.core.sbuf.tile(dtype, 1, 1); }) == (nc::first_generation_of(dtype) == 0
                                                                     ? "neuroncore.rule_broken"
                                                                     : "neuroncore.generation"));
  }
}

TEST_CASE("another machine is a copy with other numbers", "[unit][neuroncore]") {
  nc::Machine small = nc::trn1();
  small.name = "small";
  small.psum_banks = 2;
  small.sbuf_partition_bytes = 1024;
  small.matmul_moving_free = 64;
  small.dtypes &= ~nc::dtype_bit(DType::fp16);
  small.semaphores = 1;
  TestCore test({}, 1, {}, small);
  nc::Core& core = test.core;
  CHECK(core.machine().name == "small");
  CHECK(core.sbuf.capacity() == 1024);
  const nc::Tile sums = core.psum.tile(128, 512);
  core.psum.tile(128, 512);
  CHECK(id_of([&] { core.psum.tile(128, 1); }) == "neuroncore.rule_broken");
  CHECK(id_of([&] { core.sbuf.tile(DType::fp32, 1, 257); }) == "neuroncore.rule_broken");
  CHECK_THAT(message_of([&] { core.sbuf.tile(DType::fp16, 1, 1); }), contains("small has"));
  const nc::Tile w = core.sbuf.tile(DType::bf16, 16, 128), x = core.sbuf.tile(DType::bf16, 16, 65);
  core.vector.memset(w, 1).memset(x, 1);
  CHECK_THAT(message_of([&] { core.tensor.matmul(sums.columns(0, 65), w, x); }),
             contains("at most 64"));
  CHECK_NOTHROW(core.tensor.matmul(sums.columns(0, 64), w, x.columns(1, 65)));
  for (int call = 0; call < 3; ++call) {
    const nc::Core::Scope scope(core);
    core.semaphore();
    CHECK(id_of([&] { core.semaphore(); }) == "neuroncore.rule_broken");
    CHECK(id_of([&] { core.semaphore(); }) == "neuroncore.rule_broken");
  }
}

TEST_CASE("no core is made of numbers that describe none", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  const auto message = [&](const nc::Machine& machine) {
    return message_of([&] { const nc::Core core = nc::make_core(context, machine); });
  };
  for (const auto& number : nc::detail::machine_numbers)
    for (const double value : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
      nc::Machine machine = nc::trn1();
      machine.*number.field = value;
      if (value == 0 && number.may_be_zero) {
        auto other = soma::make_context({.threads = 1});
        CHECK_NOTHROW(nc::make_core(other, machine));
        continue;
      }
      const std::string text = message(machine);
      INFO(text);
      CHECK(text == "machine: " + std::string(number.name) + " is " + nc::text_of(value) +
                        ", wanted " + (number.may_be_zero ? "0 to" : "above 0, up to") +
                        " 1e+09 [neuroncore.machine]");
    }
  for (const auto& count : nc::detail::machine_counts)
    for (const std::size_t value :
         {std::size_t{0}, count.most + 1, (std::numeric_limits<std::size_t>::max)()}) {
      nc::Machine machine = nc::trn1();
      machine.*count.field = value;
      if (value == 0 && count.may_be_zero) continue;
      CHECK(message(machine) == "machine: " + std::string(count.name) + " is " +
                                    std::to_string(value) + ", wanted " +
                                    (count.may_be_zero ? "0 to " : "1 to ") +
                                    std::to_string(count.most) + " [neuroncore.machine]");
    }
  nc::Machine machine = nc::trn1();
  machine.rules.scalar_fast.other = 0;
  CHECK_THAT(message(machine), contains("rules is 0 elements a cycle"));
  machine = nc::trn1();
  machine.dtypes = 0;
  CHECK(message(machine) == "machine: dtypes is 0, wanted at least one type [neuroncore.machine]");
  CHECK(context.heap().peak_bytes() == 0);  // nothing was allocated
}

TEST_CASE("every number of a machine is checked", "[unit][neuroncore]") {
  // A field that is added to Machine has to be added to the tables, too.
  constexpr std::size_t name = 2 * sizeof(std::string_view), types = 4 * sizeof(std::uint32_t),
                        rules = sizeof(nc::MachineRules), published = 2 * sizeof(nc::Figures);
  STATIC_REQUIRE(sizeof(nc::Machine) ==
                 name + types + rules + published +
                     std::size(nc::detail::machine_counts) * sizeof(std::size_t) +
                     std::size(nc::detail::machine_numbers) * sizeof(double));
}

TEST_CASE("names of opcodes and engines are all different", "[unit][neuroncore]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < nc::opcode_count; ++i)
    names.insert(to_string(static_cast<Opcode>(i)));
  CHECK(names.size() == nc::opcode_count);
  std::set<std::string_view> engines;
  for (std::size_t i = 0; i < nc::engine_count; ++i)
    engines.insert(to_string(static_cast<nc::Engine>(i)));
  CHECK(engines.size() == nc::engine_count);
  CHECK(nc::engine_of(nc::lane_of(nc::Engine::scalar)) == nc::Engine::scalar);
  CHECK(nc::engine_of(nc::lane_of(nc::Engine::dma, 15)) == nc::Engine::dma);
}

TEST_CASE("the table of vendor instructions has every opcode", "[unit][neuroncore]") {
  for (std::size_t i = 0; i < nc::opcode_count; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(std::string(to_string(opcode)));
    CHECK(std::any_of(
        nc::vendor_instructions.begin(), nc::vendor_instructions.end(),
        [opcode](const nc::VendorInstruction& row) { return row.here() && row.opcode == opcode; }));
  }
}

TEST_CASE("every row of the table names its engine, or says why it is not here",
          "[unit][neuroncore]") {
  std::set<std::string> seen;
  for (const nc::VendorInstruction& row : nc::vendor_instructions) {
    INFO(std::string(row.name));
    CHECK(!row.name.empty());
    CHECK(!row.engines.empty());
    CHECK((row.first >= 2 && row.first <= 4));
    CHECK(seen.insert(std::string(row.name) + "|" + std::string(row.engines) + "|" +
                      std::string(row.call))
              .second);
    if (row.here()) {
      CHECK(row.call.starts_with("core." + std::string(row.engines) + "."));
    } else {
      CHECK(!row.note.empty());
    }
  }
}
