// These tests check the limits that every operand has, and those of transfers.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/limits.hpp"

using namespace soma_test;
using nc::Tile;
using soma::DType;
using soma::Shape;
using soma::Tensor;

TEST_CASE("limits of every operand", "[unit][neuroncore]") {
  check({
      {"sbuf.tile: partitions", "1 to 128", [](Tiles& t) { t.fp32(129, 1); }},
      {"sbuf.tile: dtype", "trn1 has",
       [](Tiles& t) { t.core.sbuf.tile(DType::fp8_e4m3fnuz, 1, 1); }},
      {"sbuf.tile: dtype", "NeuronCore-v4",
       [](Tiles& t) { t.core.sbuf.tile(DType::fp8_e4m3fn, 1, 1); }, generation},
      {"psum.tile: elements", "16384 bytes", [](Tiles& t) { t.core.psum.tile(1, 16385); }},
      {"memset: dst", "start partition 0 for more than 64",
       [](Tiles& t) { t.core.vector.memset(t.f.rows(32, 128), 0); }},
      {"memset: dst", "start partition 0 or 64",
       [](Tiles& t) { t.core.vector.memset(t.f.rows(32, 80), 0); }},
      {"memset: dst", "start partition 0, 32, 64 or 96",
       [](Tiles& t) { t.core.vector.memset(t.f.rows(1, 2), 0); }},
      {"memset: dst", "1 to 128", [](Tiles& t) { t.core.vector.memset(t.f.rows(5, 5), 0); }},
      {"memset: dst", "free dimensions of 1 or more",
       [](Tiles& t) { t.core.vector.memset(t.f.columns(5, 5), 0); }},
      {"copy: src", "a tile", [](Tiles& t) { t.core.vector.copy(t.f, Tile()); }},
      {"copy: src", "at most 65536",
       [](Tiles& t) {
         t.core.vector.copy(t.f, t.column.reshape({1, 1}).broadcast(0, 65536).broadcast(1, 2));
       }},
  });
}

TEST_CASE("limits of transfers", "[unit][neuroncore]") {
  check({
      {"dma.load: tile", "DMA",
       [](Tiles& t) { t.core.dma.load(t.sums, nc::hbm(t.table).rows(0, 128)); }},
      {"dma.load: view", "the rows and",
       [](Tiles& t) { t.core.dma.load(t.f, nc::hbm(t.table).rows(0, 127)); }},
      {"dma.load: view", "trn1 has",
       [](Tiles& t) {
         t.core.dma.load(t.f.rows(0, 1).columns(0, 2),
                         nc::hbm(Tensor::zeros(t.test.context, Shape{1, 2}, DType::e8m0)));
       }},
      {"dma.store: view", "hbm_target",
       [](Tiles& t) { t.core.dma.store(nc::hbm(t.table).rows(0, 128), t.f); }},
      {"dma.gather: indices", "int32, [128, 1]",
       [](Tiles& t) { t.core.dma.gather(t.f, nc::hbm(t.table), t.column); }},
      {"dma.gather: table", "512 elements a row",
       [](Tiles& t) {
         t.core.dma.gather(t.f, nc::hbm(t.table).columns(0, 511), t.ints.columns(0, 1));
       }},
      {"dma.gather: indices", "a row of fp32 HBM [1000, 512]",
       [](Tiles& t) {
         t.core.vector.memset(t.ints, 1000);
         t.core.dma.gather(t.f, nc::hbm(t.table), t.ints.columns(0, 1));
       },
       undefined},
      {"dma.sum: views", "1 to 16", [](Tiles& t) { t.core.dma.sum(t.f, {}); }},
      {"dma.queue: index", "below 16", [](Tiles& t) { t.core.dma.queue(16); }},
      {"wait: value", "at most 0",
       [](Tiles& t) {
         nc::Semaphore semaphore = t.core.semaphore();
         t.core.vector.wait(semaphore, 1);
       },
       undefined},
  });
}
