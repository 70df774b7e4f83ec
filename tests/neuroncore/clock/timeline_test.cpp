// The clock's rules one by one, on records made by hand.

#include "neuroncore/clock/records.hpp"

#include <soma/neuroncore/clock/busy.hpp>
#include <soma/neuroncore/clock/path.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace soma_test;
using Catch::Matchers::WithinRel;
using nc::Bound;
using soma::DType;

namespace {

constexpr nc::Machine machine = at_once();

nc::Timeline time(const RecordBuilder& record, const nc::ClockOptions& options = {}) {
  return nc::timeline(record.all, machine, options);
}
auto ns(double wanted) { return WithinRel(wanted, 1e-9); }

}  // namespace

TEST_CASE("an engine runs its instructions one after the other", "[unit][neuroncore]") {
  RecordBuilder record;
  for (int i = 0; i < 3; ++i) record.scalar(512);
  const nc::Timeline timeline = time(record);
  CHECK_THAT(timeline.ns, ns(3 * 512 / 1.4));
  CHECK(timeline.instructions[1].bound == Bound::lane);
  CHECK(timeline.instructions[1].cause == 0);
  CHECK(timeline.instructions[0].cause == nc::Timed::nobody);
  CHECK(nc::timeline({}, machine).ns == 0);
}

TEST_CASE("an instruction waits for the result of its own engine's previous one",
          "[unit][neuroncore]") {
  RecordBuilder record;
  record.scalar(1);
  record.scalar(1).reads_previous = true;
  record.vector(1);
  record.vector(1).reads_previous = true;
  record.vector(512);
  record.vector(512).reads_previous = true;  // the first takes longer than the wait
  const nc::Timeline timeline = time(record);
  CHECK_THAT(timeline.instructions[1].start, ns(264 / 1.4));
  CHECK(timeline.instructions[1].bound == Bound::result);
  CHECK_THAT(timeline.instructions[3].start, ns(164 / 1.12));
  CHECK_THAT(timeline.instructions[5].start, ns(timeline.instructions[4].end));
  CHECK(timeline.instructions[5].bound == Bound::lane);
}

TEST_CASE("a wait on another engine costs a hop", "[unit][neuroncore]") {
  RecordBuilder record;
  record.matmul(128, 512, DType::bf16);
  record.scalar(64).after[0] = 1;
  nc::Timeline timeline = time(record);
  CHECK_THAT(timeline.instructions[1].start, ns(512 / 2.8 + 100 / 1.4));
  CHECK(timeline.instructions[1].bound == Bound::semaphore);
  CHECK(timeline.instructions[1].cause == 0);
  // Not where it ended long ago.
  record.matmul(128, 512, DType::bf16);
  record.matmul(128, 512, DType::bf16).after[2] = 1;
  record.vector(512);
  record.vector(64).after[0] = 1;
  timeline = time(record);
  CHECK_THAT(timeline.instructions[5].start, ns(timeline.instructions[4].end));
}

TEST_CASE("engines exclude each other on a memory's port", "[unit][neuroncore]") {
  RecordBuilder record;
  record.vector(512);
  record.gpsimd(512);
  nc::Timeline timeline = time(record);
  CHECK_THAT(timeline.instructions[1].start, ns(timeline.instructions[0].end));
  CHECK(timeline.instructions[1].bound == Bound::port);
  CHECK(time(record, {.ports = false}).instructions[1].start == 0);
  // Scalar and GpSimd do not, nor Vector and Scalar on SBUF.
  RecordBuilder others;
  others.scalar(512);
  others.gpsimd(512);
  others.matmul(128, 512, DType::bf16);
  timeline = time(others);
  for (const nc::Timed& timed : timeline.instructions) CHECK(timed.start == 0);
  RecordBuilder psum;
  psum.vector(512).uses_psum = true;
  psum.scalar(512).uses_psum = true;
  timeline = time(psum);
  CHECK_THAT(timeline.instructions[1].start, ns(1024 / 1.12));
}

TEST_CASE("transfers share the DMA engines", "[unit][neuroncore]") {
  RecordBuilder record;
  record.transfer(0, 128, 128 * 2048);
  nc::Timeline timeline = time(record);
  CHECK_THAT(timeline.ns, ns(1300 + 8 * 142));
  record.transfer(0, 128, 128 * 2048);  // its start is hidden
  timeline = time(record);
  CHECK_THAT(timeline.ns, ns(1300 + 16 * 142));
  CHECK(timeline.instructions[1].bound == Bound::lane);
  // A transfer of another queue: the engines are busy with both.
  record.transfer(3, 128, 128 * 4096);
  timeline = time(record);
  CHECK_THAT(timeline.ns, ns(1300 + 16 * 142 + 8 * 4096 / 17.0));
  CHECK(timeline.instructions[2].bound == Bound::dma_engines);
  // Transfers of the same queue, on other engines: at the same time, and in order.
  RecordBuilder both;
  both.transfer(0, 8, 8 * 4096);
  both.transfer(0, 8, 8 * 4);
  timeline = time(both);
  CHECK_THAT(timeline.instructions[1].start, ns(1300));
  CHECK_THAT(timeline.instructions[1].end, ns(1300 + 4096 / 17.0));
  // Few buffers go to the engines that are free first.
  RecordBuilder few;
  few.transfer(0, 8, 8 * 4);
  few.transfer(1, 8, 8 * 4);
  CHECK_THAT(time(few).ns, ns(1300 + 142));
  few.transfer(2, 1, 4);
  CHECK_THAT(time(few).ns, ns(1300 + 2 * 142));
}

TEST_CASE("a transfer that waits holds up its own queue only", "[unit][neuroncore]") {
  RecordBuilder record;
  record.scalar(14'000);  // 10 us
  record.transfer(0, 16, 16).after[2] = 1;
  record.transfer(0, 16, 16);
  record.transfer(1, 16, 16);
  nc::Timeline timeline = time(record);
  CHECK_THAT(timeline.instructions[1].start, ns(10'000 + 1300));
  CHECK_THAT(timeline.instructions[2].start, ns(10'000 + 1300 + 142));
  CHECK_THAT(timeline.instructions[3].start, ns(1300));
  timeline = time(record, {.queues_overtake = false});
  CHECK(timeline.instructions[3].start > 10'000);
}

namespace {

// A gather of `rows` rows of 256 bytes.
nc::Instruction& gather(RecordBuilder& record, std::size_t queue, std::uint32_t rows) {
  nc::Instruction& added = record.transfer(queue, rows, std::uint64_t{256} * rows);
  added.opcode = nc::Opcode::dma_gather;
  added.cost.partitions = rows;
  return added;
}

}  // namespace

TEST_CASE("the GpSimd engine writes the descriptors of gathers and scatters",
          "[unit][neuroncore]") {
  const double descriptors = (330 + 75 * 128) / 1.4;
  RecordBuilder record;
  record.gpsimd(512);
  gather(record, 0, 128);
  gather(record, 0, 128).opcode = nc::Opcode::dma_scatter;
  record.transfer(1, 16, 16);
  record.gpsimd(512);
  record.gpsimd(512).after[4] = 2;  // waits for both
  const nc::Timeline timeline = time(record);
  const double first = 512 / 1.4, second = 2 * first;
  CHECK_THAT(timeline.instructions[0].start, ns(0));
  // The engine runs what it has, and then writes descriptors.
  CHECK_THAT(timeline.instructions[4].start, ns(first));
  CHECK_THAT(timeline.instructions[1].start, ns(second + descriptors + 1300));
  CHECK(timeline.instructions[1].bound == nc::Bound::descriptors);
  CHECK_THAT(timeline.instructions[2].start, ns(second + 2 * descriptors + 1300));
  CHECK_THAT(timeline.instructions[3].start, ns(1300));  // rows that are known beforehand
  CHECK_THAT(timeline.instructions[5].start, ns(timeline.instructions[2].end + 100 / 1.4));
  CHECK_THAT(nc::busy_ns(record.all, timeline, machine)[3], ns(3 * first + 2 * descriptors));
  nc::Machine free = machine;
  free.descriptors_start_cycles = free.descriptor_cycles = 0;
  CHECK_THAT(nc::timeline(record.all, free).instructions[1].start, ns(1300));
}

TEST_CASE("the engine is held while descriptors are written, and the path adds up",
          "[unit][neuroncore]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RecordBuilder record = random_record(seed, 300);
    for (nc::Instruction& it : record.all)
      if (it.position.lane >= 4 && it.cost.buffers % 3 == 0) {
        it.opcode = nc::Opcode::dma_gather;
        it.cost.partitions = it.cost.buffers;
      }
    const nc::Timeline timeline = time(record);
    std::vector<std::pair<double, double>> held;
    for (std::size_t i = 0; i < record.all.size(); ++i) {
      const nc::Instruction& it = record.all[i];
      const nc::Timed& timed = timeline.instructions[i];
      if (const double own = nc::descriptors_ns(it, machine); own > 0) {
        held.emplace_back(timed.described, timed.described + own);
        CHECK(timed.start >= timed.described + own + 1300 - 1e-6);
      } else if (it.position.lane == 3) {
        held.emplace_back(timed.start, timed.end);
      }
    }
    std::sort(held.begin(), held.end());
    for (std::size_t i = 1; i < held.size(); ++i) CHECK(held[i].first >= held[i - 1].second - 1e-6);
    double path = 0;
    nc::detail::for_path(timeline, [&](std::uint32_t, double ran, double waited) {
      CHECK((ran >= 0 && waited >= 0));
      path += ran + waited;
    });
    CHECK_THAT(path, ns(timeline.ns));
  }
}

TEST_CASE("the numbers of the machine are used", "[unit][neuroncore]") {
  RecordBuilder record;
  record.scalar(512);
  record.vector(512).after[2] = 1;
  nc::Machine other = machine;
  other.launch_ns = 5000;
  other.semaphore_hop_cycles = 0;
  other.scalar_ghz = 1;
  CHECK_THAT(nc::timeline(record.all, other).ns, ns(5000 + 512 + 1024 / 1.12));
  RecordBuilder load;
  load.transfer(0, 16, 16 * 17'000);
  CHECK_THAT(nc::timeline(load.all, machine).ns, ns(1300 + 1000));
  other = machine;
  other.hbm_gb_per_s = 136;  // half of what the engines could
  CHECK_THAT(nc::timeline(load.all, other).ns, ns(1300 + 2000));
  load.all[0].direction = nc::Direction::on_chip;
  CHECK_THAT(nc::timeline(load.all, other).ns, ns(1300 + 1000));
  other.vector_ghz = 0;
  CHECK(id_of([&] { nc::timeline(load.all, other); }) == "neuroncore.machine");
}

TEST_CASE("a record may begin at any number and has no gaps", "[unit][neuroncore]") {
  RecordBuilder whole;
  whole.vector(512);
  whole.scalar(512).after[1] = 1;
  whole.scalar(512);
  const std::span<const nc::Instruction> all(whole.all);
  // Instructions that were taken earlier ended at time 0.
  CHECK(nc::timeline(all.subspan(1), machine).instructions[0].start == 0);
  const auto error = [&](const auto& change) {
    std::vector<nc::Instruction> bad = whole.all;
    change(bad);
    return message_of([&] { nc::timeline(bad, machine); });
  };
  CHECK_THAT(error([](auto& bad) { bad[2].position.number = 3; }),
             contains("instruction 2 is number 3 of its lane, wanted number 2"));
  CHECK_THAT(error([](auto& bad) { bad[1].after[1] = 2; }),
             contains("instruction 1 is after number 2 of lane 1, wanted"));
  CHECK_THAT(error([](auto& bad) { bad[2].after[2] = 2; }), contains("neuroncore.record"));
  CHECK_THAT(error([](auto& bad) { bad[0].position.lane = 77; }), contains("lane 77"));
  CHECK_THAT(error([](auto& bad) { bad[0].position.number = 0; }), contains("neuroncore.record"));
  CHECK_THAT(error([](auto& bad) { bad[0].opcode = static_cast<nc::Opcode>(200); }),
             contains("unknown opcode"));
  CHECK(error([](auto& bad) { bad[0].after[3] = 9; }) == "no error");  // taken earlier
  CHECK_THAT(error([](auto& bad) { bad[0].after[2] = 1; }), contains("neuroncore.record"));
}

TEST_CASE("the same record gives the same bits", "[unit][neuroncore]") {
  const RecordBuilder record = random_record(3, 500);
  const nc::Timeline a = time(record), b = time(record);
  CHECK(a.order == b.order);
  CHECK(a.ns == b.ns);
  // Before and after any number, too: only what came earlier counts.
  std::vector<nc::Instruction> moved = record.all;
  for (nc::Instruction& instruction : moved) {
    instruction.position.number += 1000;
    for (std::uint32_t& number : instruction.after)
      if (number != 0) number += 1000;
  }
  CHECK(nc::timeline(moved, machine).ns == a.ns);
}
