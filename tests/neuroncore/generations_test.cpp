// The differences of three generations: numbers, ports, rates, rules, and what each refuses.

#include "neuroncore/clock/records.hpp"

#include <soma/neuroncore/clock/report.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

using namespace soma_test;
using Catch::Matchers::WithinRel;
using nc::Machine;
using nc::Tile;
using soma::DType;

namespace {

constexpr Machine without_launch(Machine machine) {
  machine.launch_ns = 0;
  return machine;
}
constexpr Machine v2 = without_launch(nc::trn1()), v3 = without_launch(nc::trn2()),
                  v4 = without_launch(nc::trn3());

// The timeline of a program that is recorded and not computed.
template <class Run>
nc::Timeline timed(const Machine& machine, const Run& run) {
  TestCore test({.record = true, .compute = false}, 1, {}, machine);
  run(test.core);
  return nc::timeline(test.core.recorded(), machine);
}
double length(const nc::Timed& it) { return it.end - it.start; }

// The operations a second of a stream of products, 10^12: each has `rows` rows of the contraction
// to a partition.
template <class Product>
double tflops(const Machine& machine, double contraction, const Product& product) {
  constexpr int count = 64;
  const nc::Timeline timeline = timed(machine, [&](nc::Core& core) {
    for (int i = 0; i < count; ++i) {
      const nc::Core::Scope scope(core);
      product(core);
    }
  });
  const auto& all = timeline.instructions;
  return count * 2.0 * contraction * 128 * 512 / (all.back().end - all.front().start) / 1e3;
}

double overlap(const Machine& machine, const std::vector<nc::Instruction>& record) {
  const nc::Timeline timeline = nc::timeline(record, machine);
  return std::min(timeline.instructions[0].end, timeline.instructions[1].end) -
         std::max(timeline.instructions[0].start, timeline.instructions[1].start);
}

}  // namespace

TEST_CASE("trn2 and trn3 have the published sizes", "[unit][neuroncore]") {
  STATIC_REQUIRE(nc::trn2().partitions * nc::trn2().sbuf_partition_bytes == 28u << 20);
  STATIC_REQUIRE(nc::trn3().partitions * nc::trn3().sbuf_partition_bytes == 32u << 20);
  for (const Machine& machine : nc::machines) {
    INFO(std::string(machine.name));
    CHECK_NOTHROW(nc::checked(machine));
    CHECK(machine.partitions * machine.psum_partition_bytes() == 2u << 20);
    CHECK(machine.hbm_gb_per_s == machine.published_hbm.first.value);
    // 2 x 128 x 128 operations a cycle.
    CHECK_THAT(128 * 128 * 2 * machine.tensor_ghz / 1e3,
               WithinRel(machine.published_tflops.first.value, 0.01));
    for (const nc::Figures& figures : {machine.published_hbm, machine.published_tflops})
      CHECK(figures.first.given());
  }
  CHECK(nc::trn2().published_hbm.disagree());
  CHECK(nc::trn3().published_hbm.disagree());
  CHECK_FALSE(nc::trn1().published_hbm.disagree());
  CHECK(nc::trn1().generation == 2);
  CHECK(nc::trn2().generation == 3);
  CHECK(nc::trn3().generation == 4);
  // A generation has all that one before it has.
  CHECK((nc::trn1().features & ~nc::trn2().features) == 0);
  CHECK((nc::trn2().features & ~nc::trn3().features) == 0);
  for (std::size_t i = 0; i < nc::feature_count; ++i)
    for (const Machine& machine : nc::machines) {
      const auto feature = static_cast<nc::Feature>(i);
      CHECK(machine.has(feature) == (machine.generation >= nc::info(feature).first));
    }
}

TEST_CASE("streams of products reach the published rates", "[unit][neuroncore]") {
  const auto bf16 = [](nc::Core& core) {
    core.tensor.matmul(core.psum.tile(128, 512), core.sbuf.tile(DType::bf16, 128, 128),
                       core.sbuf.tile(DType::bf16, 128, 512));
  };
  CHECK_THAT(tflops(v2, 128, bf16), WithinRel(92, 0.01));
  CHECK_THAT(tflops(v3, 128, bf16), WithinRel(79, 0.01));
  CHECK_THAT(tflops(v4, 128, bf16), WithinRel(79, 0.01));
  const auto fp8 = [](nc::Core& core) {
    core.tensor.matmul_double_row(core.psum.tile(128, 512),
                                  core.sbuf.tile(DType::fp8_e4m3, 128, 256).reshape({2, 128}),
                                  core.sbuf.tile(DType::fp8_e5m2, 128, 1024).reshape({2, 512}));
  };
  CHECK_THAT(tflops(v3, 256, fp8), WithinRel(158, 0.01));
  const auto mx = [](nc::Core& core) {
    core.tensor.matmul_mx(
        core.psum.tile(128, 512), core.sbuf.tile(DType::fp8_e4m3fn, 128, 512).packed4(),
        core.sbuf.tile(DType::fp8_e4m3fn, 128, 2048).packed4(),
        core.sbuf.tile(DType::e8m0, 128, 128), core.sbuf.tile(DType::e8m0, 128, 512));
  };
  CHECK_THAT(tflops(v4, 512, mx), WithinRel(315, 0.01));
  // Operations count as those of the bf16 products in that time: no more than the array's peak.
  auto context = soma::make_context({.threads = 1});
  auto core = nc::make_core(context, v4, {.record = true, .compute = false});
  mx(core);
  CHECK(nc::array_operations(core.recorded()[0]) == 2.0 * 128 * 128 * 512);
}

TEST_CASE("instructions of v4's Vector engine take the published cycles", "[unit][neuroncore]") {
  // Elements a cycle of the instruction on [128, 2048].
  const auto rate = [](const auto& run) {
    const nc::Timeline timeline = timed(v4, run);
    return 2048 / (length(timeline.instructions[0]) * v4.vector_ghz);
  };
  CHECK_THAT(rate([](nc::Core& core) {
               core.vector.quantize_mx(core.sbuf.tile(DType::fp8_e4m3fn, 128, 2048).packed4(),
                                       core.sbuf.tile(DType::bf16, 128, 2048),
                                       core.sbuf.tile(DType::e8m0, 128, 512));
             }),
             WithinRel(4, 0.01));
  CHECK_THAT(rate([](nc::Core& core) {
               const Tile x = core.sbuf.tile(DType::bf16, 128, 2048);
               core.vector.exponential(x, x);
             }),
             WithinRel(4 * v4.scalar_ghz / v4.vector_ghz, 0.01));
  CHECK_THAT(rate([](nc::Core& core) {
               core.vector.rand2(core.sbuf.tile(DType::fp32, 128, 2048), 0, 1, {});
             }),
             WithinRel(4, 0.01));
}

TEST_CASE("transfers reach the published rates", "[unit][neuroncore]") {
  const auto load_ns = [](const Machine& machine, const soma::Shape& shape, DType dtype) {
    const nc::Timeline timeline = timed(machine, [&](nc::Core& core) {
      core.dma.load(core.sbuf.tile(dtype, shape[0], shape[1]),
                    nc::hbm(soma::Tensor::empty(core.context(), shape, dtype)));
    });
    CHECK(timeline.instructions[0].start == machine.dma_start_ns);
    return length(timeline.instructions[0]);
  };
  const auto rate = [&](const Machine& machine, std::size_t columns) {
    return 128 * static_cast<double>(columns) * 4 / load_ns(machine, {128, columns}, DType::fp32);
  };
  CHECK_THAT(rate(v3, 512), WithinRel(368, 0.03));
  CHECK_THAT(rate(v4, 512), WithinRel(528, 0.03));
  // The cost of a buffer that a curve of v2 gives keeps 2 KiB a partition below its rate.
  CHECK_THAT(rate(v2, 1024), WithinRel(272, 0.03));
  CHECK_THAT(rate(v2, 512), WithinRel(231, 0.01));
  // Four partitions belong to one DMA engine.
  CHECK_THAT(load_ns(v3, {4, 4096}, DType::bf16), WithinRel(1416, 0.02));
}

TEST_CASE("engines exclude each other by the machine's rule", "[unit][neuroncore]") {
  RecordBuilder sbuf;
  sbuf.vector(4096);
  sbuf.gpsimd(4096);
  CHECK(overlap(v2, sbuf.all) <= 0);
  CHECK(overlap(v3, sbuf.all) > 1000);
  CHECK(overlap(v4, sbuf.all) > 1000);

  const auto banks = [](std::uint64_t vector, std::uint64_t scalar) {
    RecordBuilder psum;
    nc::Instruction& a = psum.vector(4096);
    a.uses_psum = true;
    a.psum_banks = vector;
    nc::Instruction& b = psum.scalar(4096);
    b.uses_psum = true;
    b.psum_banks = scalar;
    return psum.all;
  };
  CHECK(overlap(v2, banks(1, 2)) <= 0);
  CHECK(overlap(v3, banks(1, 2)) > 1000);
  CHECK(overlap(v3, banks(3, 6)) <= 0);
  CHECK(overlap(v4, banks(4, 4)) <= 0);
  // The rule is a field: with v2's, a machine as fast as v3 waits.
  Machine slow = v3;
  slow.rules = v2.rules;
  CHECK(overlap(slow, sbuf.all) <= 0);
  CHECK(overlap(slow, banks(1, 2)) <= 0);
}

TEST_CASE("an instruction names the banks that it uses", "[unit][neuroncore]") {
  TestCore test({.record = true, .compute = false});
  const Tile sums = test.core.psum.tile(128, 1024), other = test.core.psum.tile(128, 16);
  const Tile out = test.core.sbuf.tile(DType::fp32, 128, 512);
  test.core.vector.memset(sums, 0)
      .copy(out, sums.columns(512, 1024))
      .copy(other, out.columns(0, 16));
  const auto record = test.core.recorded();
  CHECK(record[0].psum_banks == 3);
  CHECK(record[1].psum_banks == 2);
  CHECK(record[2].psum_banks == 4);
}

TEST_CASE("Vector and Scalar engine pass more elements a cycle by type, memory and stride",
          "[unit][neuroncore]") {
  constexpr std::size_t n = 1024;
  // Cycles an element of a copy.
  const auto copy = [](const Machine& machine, nc::Engine engine, DType from, DType to,
                       std::size_t step, bool from_psum, bool to_psum) {
    const nc::Timeline timeline = timed(machine, [&](nc::Core& core) {
      const auto tile = [&](DType dtype, bool psum) {
        return (psum ? core.psum.tile(128, n * step, dtype) : core.sbuf.tile(dtype, 128, n * step))
            .columns(0, n * step, step);
      };
      const Tile dst = tile(to, to_psum), src = tile(from, from_psum);
      if (engine == nc::Engine::vector)
        core.vector.copy(dst, src);
      else
        core.scalar.copy(dst, src);
    });
    return length(timeline.instructions[0]) * nc::ghz_of(machine, engine) / n;
  };
  struct Row {
    DType from, to;
    std::size_t step;
    bool from_psum, to_psum;
    double vector2, vector3, vector4, scalar4;  // elements a cycle
  };
  const Row rows[] = {
      {DType::bf16, DType::bf16, 1, false, false, 1, 4, 4, 2},
      {DType::bf16, DType::fp16, 1, false, false, 1, 4, 4, 2},
      {DType::bf16, DType::bf16, 2, false, false, 1, 2, 2, 2},
      {DType::bf16, DType::bf16, 1, true, false, 1, 2, 2, 2},
      {DType::bf16, DType::bf16, 1, false, true, 1, 2, 2, 2},
      {DType::bf16, DType::bf16, 2, true, false, 1, 1, 1, 1},
      {DType::bf16, DType::bf16, 1, true, true, 1, 1, 1, 1},
      {DType::fp32, DType::bf16, 1, false, false, 1, 1, 1, 1},
      {DType::fp32, DType::fp32, 1, false, false, 1, 1, 1, 1},
      {DType::fp8_e4m3, DType::bf16, 1, false, false, 1, 1, 4, 1},
  };
  for (const Row& row : rows) {
    INFO(to_string(row.from) << " to " << to_string(row.to) << " step " << row.step << " PSUM "
                             << row.from_psum << row.to_psum);
    const auto rate = [&](const Machine& machine, nc::Engine engine) {
      return 1 / copy(machine, engine, row.from, row.to, row.step, row.from_psum, row.to_psum);
    };
    CHECK_THAT(rate(v2, nc::Engine::vector), WithinRel(row.vector2, 1e-9));
    CHECK_THAT(rate(v3, nc::Engine::vector), WithinRel(row.vector3, 1e-9));
    CHECK_THAT(rate(v4, nc::Engine::vector), WithinRel(row.vector4, 1e-9));
    CHECK_THAT(rate(v2, nc::Engine::scalar), WithinRel(1, 1e-9));
    CHECK_THAT(rate(v3, nc::Engine::scalar), WithinRel(1, 1e-9));
    CHECK_THAT(rate(v4, nc::Engine::scalar), WithinRel(row.scalar4, 1e-9));
  }
  // Two tiles: v2's formula, twice as fast with 16 bits in SBUF.
  const auto pair = [](const Machine& machine, DType dtype, bool psum) {
    const nc::Timeline timeline = timed(machine, [&](nc::Core& core) {
      const Tile a = psum ? core.psum.tile(128, n, dtype) : core.sbuf.tile(dtype, 128, n);
      const Tile b = core.sbuf.tile(dtype, 128, n), dst = core.sbuf.tile(dtype, 128, n);
      core.vector.tensor_tensor(dst, a, b, nc::Alu::add);
    });
    return length(timeline.instructions[0]) * machine.vector_ghz / n;
  };
  CHECK_THAT(pair(v2, DType::bf16, false), WithinRel(1, 1e-9));
  CHECK_THAT(pair(v3, DType::bf16, false), WithinRel(0.5, 1e-9));
  CHECK_THAT(pair(v3, DType::fp16, false), WithinRel(1, 1e-9));
  CHECK_THAT(pair(v3, DType::fp32, false), WithinRel(2, 1e-9));
  CHECK_THAT(pair(v4, DType::bf16, true), WithinRel(1, 1e-9));
}

TEST_CASE("reports on v3 and v4 say that no timing holds them", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  const nc::RecordNames names(context.heap());
  RecordBuilder record;
  record.vector(512);
  for (const Machine& machine : nc::machines) {
    const nc::Report report(record.all, names, machine);
    const bool held = machine.generation == 2;
    for (const std::string& text :
         {report.text(), report.json(), report.text_timeline(), report.trace(), report.html()}) {
      CHECK((text.find("formulas of v2; no published timing to hold it to") == std::string::npos) ==
            held);
      CHECK((text.find("by published rules") == std::string::npos) != held);
    }
  }
}

TEST_CASE("transposes are exact or products with the identity", "[unit][neuroncore]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{1, nan, -0.0f, 2, 3, 4};  // [3, 2]
  for (const Machine& machine : {v2, v3, v4}) {
    INFO(std::string(machine.name));
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e5m2}) {
      TestCore test({}, 1, {}, machine);
      const Tile src = test.tile(dtype, 3, values), dst = test.core.psum.tile(2, 3, dtype);
      test.core.tensor.transpose(dst, src);
      const std::vector<float> turned = test.values(dst);
      const bool exact = machine.rules.exact_transposes;
      CHECK(turned[0] == 1);
      CHECK(std::signbit(turned[1]) == exact);  // -0
      CHECK(std::isnan(turned[3]));
      CHECK((turned[4] == 2) == exact);
      CHECK((turned[5] == 4) == exact);
      CHECK(std::isnan(turned[5]) != exact);
      // Elements that are not side by side.
      const Tile wide = test.core.sbuf.tile(dtype, 3, 4), step = wide.columns(0, 4, 2);
      test.core.vector.memset(wide, 1).copy(step, src);
      test.core.tensor.transpose(dst, step);
      CHECK((test.values(dst)[4] == 2) == exact);
    }
  }
}

TEST_CASE("the Scalar engine copies bits, or through fp32", "[unit][neuroncore]") {
  for (const Machine& machine : {v2, v3, v4}) {
    TestCore test({}, 1, {}, machine);
    const std::vector<std::int32_t> values{16777217, -5};
    const Tile src = test.integers(1, values), dst = test.core.sbuf.tile(DType::int32, 1, 2);
    test.core.scalar.copy(dst, src);
    CHECK((test.integers_of(dst) == values) == machine.rules.exact_scalar_copies);
  }
}

TEST_CASE("the bias of an activation may be a number from v3 on", "[unit][neuroncore]") {
  for (const Machine& machine : {v2, v3, v4}) {
    TestCore test({}, 1, {}, machine);
    const Tile x = test.tile(DType::fp32, 1, std::vector<float>{1, 2});
    const auto run = [&] {
      test.core.scalar.activation(x, x, nc::Function::square, {.scale = 2, .bias_number = 1});
    };
    if (machine.generation == 2) {
      CHECK_THAT(message_of(run),
                 contains("activation with a number as bias on trn1, wanted NeuronCore-v3") &&
                     contains("[neuroncore.generation]"));
      continue;
    }
    run();
    CHECK(test.values(x) == std::vector<float>{9, 25});
    CHECK(id_of([&] {
            test.core.scalar.activation(x, x, nc::Function::exp, {.bias = &x, .bias_number = 1});
          }) == "neuroncore.rule_broken");
  }
}

TEST_CASE("products span banks, leave bf16 and add to any PSUM where the machine says so",
          "[unit][neuroncore]") {
  // 256 + 3, in every place.
  const auto product = [](TestCore& test, std::size_t n, DType dtype) {
    const Tile w = test.core.sbuf.tile(DType::bf16, 2, 4),
               x = test.core.sbuf.tile(DType::bf16, 2, n);
    test.core.vector.memset(w, 1).memset(x, 3).memset(x.rows(0, 1), 256);
    const Tile sums = test.core.psum.tile(4, n, dtype);
    test.core.tensor.matmul(sums, w, x);
    const std::vector<float> all = test.values(sums);
    CHECK(std::count(all.begin(), all.end(), all[0]) == static_cast<std::ptrdiff_t>(4 * n));
    return all[0];
  };
  for (const Machine& machine : {v2, v3}) {
    TestCore test({}, 1, {}, machine);
    CHECK(id_of([&] { product(test, 513, DType::fp32); }) == "neuroncore.rule_broken");
    CHECK_THAT(message_of([&] { product(test, 8, DType::bf16); }),
               contains(machine.name.data()) && contains("products with bf16 results on ") &&
                   contains("wanted NeuronCore-v4 [neuroncore.generation]"));
  }
  {
    TestCore test({}, 1, {}, v4);
    CHECK(product(test, 4096, DType::fp32) == 259);
  }
  {
    TestCore test({}, 1, {}, v4);
    CHECK(product(test, 8192, DType::bf16) == 260);  // 259 lies between 258 and 260
  }
  TestCore test({}, 1, {}, v4);
  CHECK(id_of([&] { product(test, 4097, DType::fp32); }) == "neuroncore.rule_broken");
  for (const Machine& machine : {v2, v3, v4}) {
    TestCore other({}, 1, {}, machine);
    const Tile one = other.tile(DType::bf16, 1, std::vector<float>{1});
    const Tile sum = other.core.psum.tile(1, 1);
    other.core.vector.memset(sum, 5);
    const auto add = [&] { other.core.tensor.matmul(sum, one, one, nc::Accumulate::yes); };
    if (machine.rules.adds_to_any_psum) {
      add();
      CHECK(other.values(sum)[0] == 6);
    } else {
      CHECK(id_of(add) == "neuroncore.undefined");
    }
  }
}

TEST_CASE("types of later generations, and those that are not here", "[unit][neuroncore]") {
  for (const Machine& machine : {v2, v3, v4}) {
    TestCore test({}, 1, {}, machine);
    const auto id = [&](DType dtype) { return id_of([&] { test.core.sbuf.tile(dtype, 1, 4); }); };
    for (const DType dtype : {DType::fp8_e4m3fn, DType::e8m0})
      CHECK(id(dtype) == (machine.generation == 4 ? "no error" : "neuroncore.generation"));
    CHECK(id(DType::int64) ==
          (machine.generation == 2 ? "neuroncore.generation" : "neuroncore.not_implemented"));
    CHECK(id(DType::fp8_e4m3fnuz) == "neuroncore.rule_broken");
  }
  TestCore test;
  CHECK_THAT(message_of([&] { test.core.sbuf.tile(DType::e8m0, 1, 4); }),
             contains("e8m0 on trn1, wanted NeuronCore-v4 [neuroncore.generation]"));
}
