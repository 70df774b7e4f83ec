// Order finds what touched the same bytes in a search tree. Here it is compared with looking at all
// that were touched before, over random programs: the same waits in the same order, the same races.

#include "neuroncore/test_core.hpp"

#include <soma/numeric/philox.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Lane;
using nc::Order;
using nc::Position;
using nc::Region;
using nc::Synchronization;
using nc::Touch;

namespace {

// Every touch in one list.
class PlainOrder {
 public:
  struct Race {
    Position old;
  };

  explicit PlainOrder(bool manual) : manual_(manual) {}

  Position begin(Lane lane) { return {lane, ++issued_[lane]}; }
  std::optional<Race> touch(const Touch& now, std::vector<Position>& waits) {
    auto clocks = clocks_;
    std::vector<Touch> kept;
    for (const Touch& old : touches_) {
      const bool same_lane = old.at.lane == now.at.lane;
      const bool same_space = old.region.space == now.region.space;
      if (same_space && !same_lane && (now.writes || old.writes) && old.region.meets(now.region)) {
        if (manual_ && clocks[now.at.lane][old.at.lane] < old.at.number) return Race{old.at};
        waits.push_back(old.at);
        std::uint32_t& seen = clocks[now.at.lane][old.at.lane];
        seen = (std::max)(seen, old.at.number);
      }
      if (!same_space || !(now.writes || (!old.writes && same_lane)) ||
          !now.region.holds(old.region))
        kept.push_back(old);
    }
    kept.push_back(now);
    clocks_ = clocks;
    touches_ = kept;
    return std::nullopt;
  }
  void join(Lane lane, Lane other) {
    Order::Clock from = clocks_[other];
    from[other] = issued_[other];
    for (std::size_t i = 0; i < nc::lane_count; ++i)
      clocks_[lane][i] = (std::max)(clocks_[lane][i], from[i]);
  }
  void all_done() {
    clocks_.fill(issued_);
    touches_.clear();
  }
  std::size_t kept() const { return touches_.size(); }

 private:
  bool manual_;
  Order::Clock issued_{};
  std::array<Order::Clock, nc::lane_count> clocks_{};
  std::vector<Touch> touches_;
};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::size_t below(std::size_t count) {
    const auto words = soma::philox4x32_10({static_cast<std::uint32_t>(++drawn_), 0, 0, 0},
                                           {static_cast<std::uint32_t>(seed_), 7});
    return words[0] % count;
  }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

 private:
  std::uint64_t seed_, drawn_ = 0;
};

// A pattern of up to three dimensions in a few hundred bytes, so that many meet.
Region random_region(Dice& dice) {
  const auto space = static_cast<Region::Space>(dice.below(3));
  const std::size_t first = space == Region::Space::hbm ? 0 : 32 * dice.below(4);
  const std::size_t last = space == Region::Space::hbm ? 1 : first + 32 * (1 + dice.below(2));
  std::array<nc::Step, 3> steps;
  std::size_t extent = 1;
  const std::size_t width = std::size_t{1} << dice.below(3), rank = dice.below(4);
  for (std::size_t i = 0; i < rank; ++i) {
    steps[i] = {1 + dice.below(5), static_cast<std::ptrdiff_t>(width * dice.below(24))};
    extent += (steps[i].count - 1) * static_cast<std::size_t>(steps[i].stride);
  }
  return {space, first, last, width * dice.below(100), width, steps.data(), rank};
}

void compare(std::uint64_t seed, bool manual, std::size_t instructions, bool joins) {
  Dice dice(seed);
  auto context = soma::make_context({.threads = 1});
  nc::RecordNames names(context.heap());
  Order order(context.heap(), manual ? Synchronization::manual : Synchronization::automatic, true,
              names);
  PlainOrder plain(manual);
  std::size_t races = 0, waits_seen = 0, kept = 0;
  for (std::size_t i = 0; i < instructions; ++i) {
    if (dice.chance(200)) {
      order.all_done();
      plain.all_done();
    }
    const auto lane = static_cast<Lane>(dice.below(6));
    for (std::size_t j = joins ? dice.below(4) : 0; j != 0; --j) {
      const auto other = static_cast<Lane>(dice.below(6));
      order.join(lane, order.ended(other));
      plain.join(lane, other);
    }
    const Position at = order.begin(lane);
    CHECK(plain.begin(lane) == at);
    for (std::size_t j = 1 + dice.below(3); j != 0; --j) {
      const Touch touch{random_region(dice), at, nc::Opcode::copy, dice.chance(2), {}, 0};
      std::vector<Position> waits, wanted;
      const std::optional<PlainOrder::Race> race = plain.touch(touch, wanted);
      const std::string message = message_of(
          [&] { order.touch(touch, [&](Position earlier) { waits.push_back(earlier); }); });
      if (race) {
        ++races;
        const std::string old =
            "not ordered after copy, number " + std::to_string(race->old.number) + " of ";
        CHECK_THAT(message, contains(old.c_str()) && contains("[neuroncore.race]"));
      } else {
        CHECK(message == "no error");
        CHECK(waits == wanted);
        waits_seen += waits.size();
      }
    }
    kept = (std::max)(kept, plain.kept());
  }
  CHECK(kept > 30);  // there was something to look through
  CHECK(waits_seen > instructions / 8);
  CHECK((races > 0) == manual);
}

}  // namespace

TEST_CASE("waits are those of a list of all touches, over random programs", "[unit][neuroncore]") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    compare(seed, false, 600, false);
    compare(seed, true, 600, true);
  }
}

TEST_CASE("only what lies near is looked at", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  nc::Touches touches(context.heap());
  const auto block = [](std::size_t number) {
    return Region(Region::Space::hbm, 0, 1, 64 * number, 64, nullptr, 0);
  };
  // In an order without order.
  for (std::size_t i = 0; i < 4096; ++i)
    touches.add({block(i * 1237 % 4096), {}, nc::Opcode::copy, true, {}, 0});
  CHECK(touches.size() == 4096);
  for (std::size_t i = 0; i < 4096; ++i) CHECK(touches.close_by(block(i)).size() == 1);
  const Region five(Region::Space::hbm, 0, 1, 64 * 100 - 1, 64 * 3 + 2, nullptr, 0);
  const auto near = touches.close_by(five);
  CHECK(near.size() == 5);
  CHECK(std::is_sorted(near.begin(), near.end()));  // in the order in which they were added
  for (const nc::Touches::Index index : std::vector(near.begin(), near.end())) touches.erase(index);
  CHECK(touches.close_by(five).empty());
  CHECK(touches.size() == 4091);
  touches.clear();
  CHECK(touches.close_by(five).empty());
}
