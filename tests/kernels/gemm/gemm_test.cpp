// Matrix products: the sums themselves, for all operands and cuts. epilogue_test.cpp tests the
// epilogue of sums.

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/runtime/cpu.hpp>

#include "kernels/gemm/gemm_call.hpp"
#include "support/floating_dtypes.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <utility>

using namespace soma;
using namespace soma_test;

namespace {

std::vector<float> product_of(const Context& context, const Product& product, bool narrow = false) {
  std::vector<float> c(product.m * product.n, std::numeric_limits<float>::quiet_NaN());
  GemmArgs args = product.args();
  args.c = plain_target(c, product.n);
  args.packed_b.narrow = narrow;
  multiply(context, args);
  return c;
}

void check_product(const Product& product, bool narrow = false) {
  const std::vector<float> chain = product.sums<float>();
  // The chain itself is as exact as promised.
  const std::vector<double> wanted = product.sums<double>(), bounds = product.bounds_of_error();
  for (std::size_t i = 0; i < chain.size(); ++i)
    if (std::isfinite(wanted[i])) REQUIRE(std::fabs(chain[i] - wanted[i]) <= bounds[i]);
  on_every_target([&](const Context& context) {
    CHECK(holds_product(context, product, chain, product_of(context, product, narrow)));
  });
}

}  // namespace

TEST_CASE("products of every shape are chains of fused multiply-adds", "[unit][gemm]") {
  for (const std::size_t m : {1, 2, 13, 14, 15, 29})
    for (const std::size_t n : {1, 7, 31, 32, 33, 67})
      for (const std::size_t k : {0, 1, 3, 16, 37}) {
        INFO(m << " x " << n << ", k " << k);
        check_product(random_product(m, n, k));
      }
}

TEST_CASE("products of more than is packed together", "[unit][gemm]") {
  // Both transposed as in y = x W^T and dW = dY^T x.
  check_product(random_product(130, 530, 401, {}, Layout::contiguous, Layout::transposed));
  check_product(random_product(1100, 33, 200, {}, Layout::transposed, Layout::contiguous));
  // More than 2^20 floats of b, and more than 1,024 steps of k.
  check_product(random_product(20, 1100, 1000, {}, Layout::contiguous, Layout::transposed));
  check_product(random_product(60, 70, 2500));
  // Whole blocks of every target, whose sums wait in c.
  check_product(random_product(336, 64, 1100));
}

static void several_tiles(Table table) {
  // Eight groups of 16 segments, whose tree leaves room for tiles of 2^18 floats.
  std::vector<std::size_t> bounds;
  for (std::size_t segment = 0; segment <= 128; ++segment) bounds.push_back(segment / 2);
  check_product(random_product(table == Table::whole ? 1050 : 270, 1030, 64, bounds));
}

TEST_CASE("several tiles in both directions", "[unit][gemm]") { several_tiles(Table::part); }
TEST_CASE("several tiles in both directions: all", "[slow][gemm]") { several_tiles(Table::whole); }

TEST_CASE("segments of more steps than are packed together", "[unit][gemm]") {
  const std::vector<std::vector<std::size_t>> all{
      {0, 1100, 1100, 2300, 2300, 2300, 3000, 3000, 4100},  // one by one, some empty
      {0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4100},   // in pairs
      {0, 500, 1000, 1000, 1000, 1500, 2000, 2000, 3000},   // a pair of empty ones
      {0, 1500, 1500, 1500, 1500},
      {0, 0, 0, 0, 1500},
  };
  for (const auto& bounds : all) {
    INFO(bounds.size() - 1 << " segments of " << bounds.back());
    check_product(random_product(30, 70, bounds.back(), bounds));
  }
}

TEST_CASE("operands in every layout", "[unit][gemm]") {
  for (const Layout a : layouts)
    for (const Layout b : layouts) {
      INFO("layouts " << static_cast<int>(a) << " and " << static_cast<int>(b));
      check_product(random_product(18, 45, 23, {}, a, b));
    }
}

TEST_CASE("operands of every type", "[unit][gemm]") {
  std::vector<DType> types(std::begin(floating_dtypes), std::end(floating_dtypes));
  types.push_back(DType::int8);
  types.push_back(DType::uint8);
  for (const DType a : types)
    for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::every_other}) {
      INFO(to_string(a) << " " << static_cast<int>(layout));
      check_product(random_product(17, 40, 210, {}, layout, layout, a, DType::fp32));
      check_product(random_product(17, 40, 210, {}, layout, layout, DType::bf16, a));
    }
}

TEST_CASE("an empty segment is a term of zeros", "[unit][gemm]") {
  // The product is less than half of the smallest number, and negative: -0. Adding 0 makes it 0.
  const auto tiny = [](float sign) {
    return store_matrix(1, 1, DType::fp32, Layout::contiguous, [=] { return sign * 1e-30f; });
  };
  for (const std::vector<std::size_t>& bounds :
       {std::vector<std::size_t>{0, 1}, {0, 1, 1}, {0, 0, 1}, {0, 0, 0, 1, 1}, {0, 0, 1, 1, 1}})
    check_product(Product(1, 1, 1, bounds, tiny(-1), tiny(1)));
  // The same for whole groups of them that are empty, before and behind one that is not.
  for (const bool last : {false, true}) {
    std::vector<std::size_t> bounds(33, last ? 0 : 1);
    bounds.front() = 0, bounds.back() = 1;
    check_product(Product(1, 1, 1, bounds, tiny(-1), tiny(1)));
  }
  // And any of eight.
  const std::vector<std::size_t> some{0, 0, 5, 5, 5, 6, 11, 11, 20};
  check_product(random_product(16, 40, 20, some));
}

TEST_CASE("scales of floating operands", "[unit][gemm]") {
  StoredMatrix a = store_matrix(9, 30, DType::fp8_e4m3, Layout::contiguous, RandomFloats(3), 0.3f);
  StoredMatrix b = store_matrix(30, 11, DType::fp32, Layout::transposed, RandomFloats(4), 1.7f);
  check_product(Product(9, 11, 30, {}, std::move(a), std::move(b)));
}

TEST_CASE("segments meet in the fixed tree", "[unit][gemm]") {
  const std::size_t k = 450;
  const std::vector<std::vector<std::size_t>> all{
      {0, 450},
      {0, 225, 450},
      {0, 0, 450},
      {0, 450, 450},
      {0, 1, 200, 449, 450},
      {0, 56, 112, 168, 224, 280, 336, 392, 450},
      {0, 0, 0, 100, 100, 450, 450, 450, 450},
      {0, 0, 0, 0, 0, 0, 0, 0, 450},
      {0, 30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 330, 360, 390, 420, 440, 450},
  };
  for (const auto& bounds : all)
    for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
      INFO(bounds.size() - 1 << " segments");
      check_product(random_product(30, 70, k, bounds, layout, Layout::contiguous));
    }
  // The order shows: other segments give other bits.
  CHECK_FALSE(same_bits(random_product(30, 70, k, all[1]).sums<float>(),
                        random_product(30, 70, k, all[0]).sums<float>()));
}

TEST_CASE("an underflown partial sum keeps its sign as the tree has it", "[unit][gemm]") {
  // The first segment rounds to -0; adding the empty one's +0 gives +0.
  Product product(1, 1, 1, {0, 1, 1},
                  store_matrix(1, 1, DType::fp32, Layout::contiguous, [] { return 0x1p-100f; }),
                  store_matrix(1, 1, DType::fp32, Layout::contiguous, [] { return -0x1p-100f; }));
  on_every_target(
      [&](const Context& context) { CHECK_FALSE(std::signbit(product_of(context, product)[0])); });
}

TEST_CASE("NaN and infinity propagate, and only where they belong", "[unit][gemm]") {
  const float infinity = std::numeric_limits<float>::infinity();
  Product product = random_product(20, 40, 30);
  const auto put = [](StoredMatrix& m, std::size_t i, float value) {
    m.values[i] = value;
    std::memcpy(m.bytes.data() + i * sizeof value, &value, sizeof value);
  };
  put(product.a, 3 * 30 + 4, infinity);
  put(product.a, 7 * 30 + 0, std::numeric_limits<float>::quiet_NaN());
  put(product.b, 4 * 40 + 9, 0);
  put(product.b, 29 * 40 + 39, -infinity);
  product.a.operand.data = product.a.bytes.data();
  product.b.operand.data = product.b.bytes.data();
  const std::vector<float> wanted = product.sums<float>();
  on_every_target([&](const Context& context) {
    const std::vector<float> c = product_of(context, product);
    for (std::size_t i = 0; i < c.size(); ++i) {
      CHECK(std::isnan(c[i]) == std::isnan(wanted[i]));
      if (std::isinf(wanted[i])) CHECK(c[i] == wanted[i]);
    }
    CHECK(std::isnan(c[3 * 40 + 9]));  // infinity * 0
  });
}

TEST_CASE("nothing to write is nothing written", "[unit][gemm]") {
  on_every_target([](const Context& context) {
    for (const auto& [m, n] : {std::pair<std::size_t, std::size_t>{0, 5}, {5, 0}, {0, 0}}) {
      GemmArgs args;
      args.m = m, args.n = n, args.k = 3;
      multiply(context, args);  // every pointer is null
    }
  });
}

TEST_CASE("cutting rows and columns into calls changes no bit", "[unit][gemm][invariance]") {
  const std::vector<std::size_t> bounds{0, 100, 130, 200, 230};
  const Product product = random_product(67, 150, 230, bounds, Layout::transposed);
  on_every_target([&](const Context& context) {
    const std::vector<float> whole = product_of(context, product);
    const GemmKernels& gemm = context.kernels().gemm;
    for (const std::size_t rows : {std::size_t{1}, std::size_t{10}, gemm.tile_rows({})})
      for (const std::size_t columns : {std::size_t{13}, gemm.tile_columns, std::size_t{150}}) {
        std::vector<float> cut(whole.size());
        for (std::size_t row = 0; row < 67; row += rows)
          for (std::size_t column = 0; column < 150; column += columns) {
            GemmArgs args = product.args();
            args.m = (std::min)(rows, 67 - row);
            args.n = (std::min)(columns, 150 - column);
            args.a.data = product.a.bytes.data() + row * args.a.row_stride * sizeof(float);
            args.b.data = product.b.bytes.data() + column * args.b.column_stride * sizeof(float);
            args.c = plain_target(cut, 150);
            args.c.data = cut.data() + row * 150 + column;
            multiply(context, args);
          }
        CHECK(same_bits(cut, whole));
      }
  });
}

TEST_CASE("b packed once, part by part, gives the same bits to all calls",
          "[unit][gemm][invariance]") {
  // Segments of k; the last is longer than is packed at a time.
  const std::vector<std::size_t> all_bounds[] = {{0, 230}, {0, 100, 130, 200, 230}, {0, 2100}};
  const std::pair<DType, bool> ways[] = {
      {DType::fp32, false}, {DType::bf16, false}, {DType::bf16, true}};
  for (const auto& way : ways)
    for (const auto& bounds : all_bounds) {
      const DType dtype = way.first;
      const bool narrow = way.second;
      const std::size_t k = bounds.back();
      const Product product =
          random_product(150, 600, k, bounds, Layout::transposed, Layout::transposed, dtype, dtype);
      on_every_way(product, [&](const Context& context, GemmArgs args) {
        const GemmKernels& gemm = context.kernels().gemm;
        std::vector<float> whole(150 * 600), shared(whole);
        args.a.scale = 1.5f;
        args.c = plain_target(whole, 600);
        multiply(context, args);

        // As codes where products widen b, and as floats.
        args.packed_b.narrow = narrow;
        const SharedPacking packing = gemm.shared_packing(args);
        if (dtype == DType::bf16 && args.bf16_products == Bf16Products::tiles && k > 1024) {
          CHECK(packing.columns == 0);  // b would come from too far
          return;
        }
        REQUIRE(packing.columns >= 600);
        const GuardedWorkspace packed(packing.bytes), workspace(packing.workspace);
        args.workspace = workspace.data();
        args.c = plain_target(shared, 600);
        const auto cut = [&](std::size_t row, std::size_t rows, std::size_t column,
                             std::size_t columns) {
          GemmArgs own = soma::detail::part(args, row, rows, column, columns);
          own.packed_b = {reinterpret_cast<float*>(packed.data()), column, packing.columns, narrow};
          return own;
        };
        const std::size_t borders[] = {0, gemm.tile_columns, 2 * gemm.tile_columns, 600};
        for (std::size_t i = 3; i-- != 0;)
          gemm.pack_b(cut(0, packing.rows, borders[i], borders[i + 1] - borders[i]));
        // The last row alone.
        std::size_t rows = 0;
        for (std::size_t row = 0; row < 150; row += rows) {
          rows = row == 149 ? 1 : (std::min)(packing.rows, 149 - row);
          for (std::size_t i = 0; i < 3; ++i)
            gemm.multiply(cut(row, rows, borders[i], borders[i + 1] - borders[i]));
        }
        CHECK(same_bits(shared, whole));
        CHECK((packed.intact() && workspace.intact()));
      });
    }
}

static void bits_over_threads(Table table) {
  // Two panes of b; more than is packed at a time; parts of k, and of columns too; little enough
  // for two and three threads to pack all of it each; too few rows for all threads; so few that
  // threads take columns; so many that they meet all of b at once.
  using Sizes = std::array<std::size_t, 3>;
  const Sizes large[] = {
      {700, 1100, 1000}, {450, 4300, 1000}, {230, 1100, 4300}, {1030, 400, 1000}};
  std::vector<Sizes> shapes{
      {450, 300, 2500}, {470, 300, 1000}, {120, 300, 1000}, {23, 1100, 2100}, {50, 1150, 400}};
  if (table == Table::whole) shapes.insert(shapes.end(), std::begin(large), std::end(large));
  for (const auto& [m, n, k] : shapes)
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      if (table == Table::part && dtype == DType::fp16 && m > 200) continue;
      const Product product =
          random_product(m, n, k, {}, Layout::contiguous, Layout::transposed, dtype, dtype);
      const std::vector<float> bias = RandomFloats(5).many(n);
      std::vector<float> first;
      float largest = 0;
      for (const int threads : {1, 2, 3, 4}) {
        Context context = make_context({.threads = threads});
        // Inside a task workers run one after another: the first takes the rows of all.
        for (const bool in_task : {false, true}) {
          std::vector<float> c(m * n);
          float amax = 0;
          GemmArgs args = product.args();
          args.c = plain_target(c, n);
          args.epilogue.accumulate = m <= 64;  // an element that leaves twice shows
          args.epilogue.bias = bias.data();
          args.epilogue.amax = &amax;
          if (in_task)
            soma::parallel(context, 2, [&](int task) {
              if (task == 1) soma::multiply(context, args);
            });
          else
            soma::multiply(context, args);
          INFO(m << " x " << n << ", " << to_string(dtype) << ", threads " << threads
                 << (in_task ? ", in a task" : ""));
          if (threads == 1 && !in_task) first = c, largest = amax;
          CHECK(same_bits(c, first));
          CHECK(amax == largest);
        }
      }
    }
}

TEST_CASE("threads change no bit of a product, whether they share b or not",
          "[unit][gemm][invariance]") {
  bits_over_threads(Table::part);
}
TEST_CASE("threads change no bit of a product, whether they share b or not: all",
          "[slow][gemm][invariance]") {
  bits_over_threads(Table::whole);
}

TEST_CASE("rows that meet all of b at once change no bit", "[unit][gemm][invariance]") {
  // By tiles, so much of b is packed in two parts for fewer rows.
  const std::size_t m = 1030, n = 400, k = 1400, part = 206;
  for (const DType dtype : {DType::bf16, DType::fp8_e4m3}) {
    const Product product =
        random_product(m, n, k, {}, Layout::contiguous, Layout::transposed, dtype, dtype);
    on_every_way(product, [&](const Context& context, GemmArgs args) {
      std::vector<float> whole(m * n), parts(whole);
      args.c = plain_target(whole, n);
      multiply(context, args);
      args.c = plain_target(parts, n);
      for (std::size_t row = 0; row < m; row += part)
        multiply(context, soma::detail::part(args, row, part, 0, n));
      CHECK(same_bits(parts, whole));
    });
  }
}

TEST_CASE("the workspace never shrinks with what is asked of it", "[unit][gemm]") {
  on_every_target([](const Context& context) {
    for (const Bf16Products products : {Bf16Products::widened, Bf16Products::tiles}) {
      const auto bytes = [&](std::size_t m, std::size_t n, std::size_t segments,
                             std::size_t k = 300) {
        return context.kernels().gemm.workspace_bytes(
            {.m = m, .n = n, .k = k, .segments = {nullptr, segments}, .bf16_products = products});
      };
      const std::size_t sizes[] = {0, 1, 14, 31, 33, 100, 512, 513, 1000, 5000, 100000};
      const std::size_t counts[] = {1, 2, 4, 8, 16, 64, 1024, 65536};
      for (std::size_t i = 0; i + 1 < std::size(sizes); ++i)
        for (const std::size_t other : sizes)
          for (const std::size_t count : counts) {
            CHECK(bytes(sizes[i], other, count) <= bytes(sizes[i + 1], other, count));
            CHECK(bytes(other, sizes[i], count) <= bytes(other, sizes[i + 1], count));
            CHECK(bytes(sizes[i], other, count) <= bytes(sizes[i], other, 2 * count));
            CHECK(bytes(other, other, count, sizes[i]) <= bytes(other, other, count, sizes[i + 1]));
          }
    }
  });
}

TEST_CASE("last rows have the same bits in blocks of every height, with b packed once or in place",
          "[unit][gemm][invariance]") {
  // Columns of b that are 4 KiB apart (fp32 and bf16), and others; more steps than are packed at a
  // time; whole groups of panels and rests, of every target.
  const DType types[][2] = {
      {DType::fp32, DType::fp32}, {DType::bf16, DType::bf16}, {DType::fp32, DType::bf16}};
  for (const auto& [dtype, type_of_b] : types)
    for (const std::size_t k : {37, 64, 1541, 2048}) {
      const std::size_t n = 150, most = k == 64 ? 300 : 62;
      const Product product =
          random_product(most, n, k, {}, Layout::contiguous, Layout::transposed, dtype, type_of_b);
      const std::vector<float> chain = product.sums<float>();
      on_every_way(product, [&](const Context& context, GemmArgs args) {
        INFO(to_string(dtype) << " and " << to_string(type_of_b) << ", k " << k);
        const GemmKernels& gemm = context.kernels().gemm;
        std::deque<GuardedWorkspace> memory;
        std::vector<PackedB> ways{{}};  // b in place, packed, packed as codes
        std::vector<std::size_t> bytes;
        for (const bool narrow : {false, true}) {
          GemmArgs packs = args;
          packs.m = 1, packs.packed_b.narrow = narrow;
          bytes.push_back(gemm.packed_bytes(packs));
          const GuardedWorkspace& panels = memory.emplace_back(bytes.back());
          ways.push_back({reinterpret_cast<float*>(panels.data()), 0, n, narrow});
          packs.packed_b = ways.back();
          const GuardedWorkspace workspace(gemm.workspace_bytes(packs));
          packs.workspace = workspace.data();
          gemm.pack_b(packs);
          CHECK((panels.intact() && workspace.intact()));
        }
        if (args.bf16_products == Bf16Products::widened &&
            args.fp32_products == Fp32Products::multiply_add)
          CHECK(bytes[1] == bytes[0] / (type_of_b == DType::bf16 ? 2 : 1));
        std::vector<float> all(most * n);
        args.c = plain_target(all, n);
        multiply(context, args);
        if (args.bf16_products == Bf16Products::widened &&
            args.fp32_products == Fp32Products::multiply_add)
          CHECK(holds_product(context, product, chain, all));
        for (std::size_t m = 1; m <= most; m += m < 62 ? 1 : 17)
          for (const PackedB& b : ways) {
            // One more row, which nobody may write.
            std::vector<float> c((m + 1) * n, std::numeric_limits<float>::quiet_NaN());
            args.m = m, args.packed_b = b;
            args.c = plain_target(c, n);
            multiply(context, args);
            INFO(m << " rows, " << (b.data != nullptr ? "packed" : "in place")
                   << (b.narrow ? " as codes" : ""));
            CHECK(std::equal(c.begin(), c.end() - static_cast<std::ptrdiff_t>(n), all.begin()));
            CHECK(std::isnan(c[m * n]));
          }
      });
    }
}

TEST_CASE("few rows: columns of bf16 stay codes in panels", "[unit][gemm]") {
  const auto check = [](std::size_t m, std::size_t n, std::vector<std::size_t> bounds,
                        Layout layout) {
    INFO(m << " x " << n << ", k " << bounds.back() << ", layout " << static_cast<int>(layout));
    const std::size_t k = bounds.back();
    if (bounds.size() == 2) bounds.clear();
    check_product(
        random_product(m, n, k, bounds, Layout::contiguous, layout, DType::fp32, DType::bf16),
        true);
  };
  for (const Layout layout : layouts)
    for (const std::size_t m : {1, 5, 33})
      for (const std::size_t n : {1, 7, 16, 33, 150})
        for (const std::size_t k : {1, 3, 4, 33, 210}) check(m, n, {0, k}, layout);
  // Segments with odd numbers of steps, and more steps than are packed at a time.
  check(9, 70, {0, 13, 13, 50, 101}, Layout::transposed);
  check(3, 70, {0, 1201, 2301}, Layout::transposed);
}

static void few_rows(Table table) {
  // On both sides of the limits, with tiles of b that end anywhere.
  for (const std::size_t m : {1, 8, 9, 16, 17, 24, 25, 32, 33, 49, 57, 64, 65})
    for (const std::size_t n : {63, 64, 77, 530})
      for (const std::size_t k : {1, 16, 143, 193, 1032}) {
        const std::size_t most = m == 9 || m == 33 ? 110000 : 12000;
        if (table == Table::part && n * k > most) continue;
        INFO(m << " x " << n << ", k " << k);
        check_product(random_product(m, n, k, {}, Layout::contiguous, Layout::transposed));
      }
  for (const std::size_t m : {41, 97, 128, 129})
    check_product(random_product(m, 77, 193, {}, Layout::contiguous, Layout::transposed));
  // A last tile of one column; more steps than go this way.
  check_product(random_product(3, 10241, 2, {}, Layout::contiguous, Layout::transposed));
  check_product(random_product(7, 64, 16385, {}, Layout::contiguous, Layout::transposed));
  check_product(random_product(23, 1100, 401, {}, Layout::every_other, Layout::transposed,
                               DType::bf16, DType::fp32));
}

TEST_CASE("few rows: columns of b are read where they lie", "[unit][gemm]") {
  few_rows(Table::part);
}
TEST_CASE("few rows: columns of b are read where they lie: all", "[slow][gemm]") {
  few_rows(Table::whole);
}

TEST_CASE("few rows: a call makes the columns that nobody has taken", "[unit][gemm]") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const std::size_t m : {5, 23, 40, 64}) {
      const std::size_t n = 650, k = 1100;
      const Product product =
          random_product(m, n, k, {}, Layout::contiguous, Layout::transposed, dtype, dtype);
      on_every_way(product, [&](const Context& context, GemmArgs args) {
        const GemmKernels& gemm = context.kernels().gemm;
        std::vector<float> whole(m * n);
        args.c = plain_target(whole, n);
        multiply(context, args);

        const std::size_t bytes = gemm.queue_workspace(args);
        // b is packed for many rows, or where it is widened or goes to tiles.
        if (bytes == 0 && (m != 5 || dtype == DType::bf16)) return;
        REQUIRE(bytes != 0);
        for (const std::size_t first : {0, 16, 333, 649, 650}) {
          INFO(m << " rows, columns from " << first);
          std::vector<float> some(m * n);
          ColumnQueue queue{.next = first, .workers = 3};
          const GuardedWorkspace workspace(bytes);
          args.workspace = workspace.data();
          args.c = plain_target(some, n);
          args.column_queue = &queue;
          gemm.multiply(args);
          CHECK(queue.next == n);
          CHECK(workspace.intact());
          for (std::size_t row = 0; row < m; ++row)
            std::copy_n(whole.data() + row * n, first, some.data() + row * n);
          CHECK(same_bits(some, whole));
        }
      });
    }
}
