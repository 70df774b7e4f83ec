#include "training/rank_options.hpp"

#include "training/validators.hpp"

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

const std::string rank_group = "Several ranks (started by mpirun)";

}  // namespace

void add_ranks(CLI::App& command, RankOptions& options, const char* memory_limit) {
  // The unit, as in 4MiB, becomes a factor before the range is checked.
  command
      .add_option("--bucket-size", options.bucket_bytes,
                  "bytes of gradients (or 512KiB, 25MiB) that ranks sum at once; results do not "
                  "depend on the size")
      ->check(count_from(1, std::uint64_t{1} << 40))
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str()
      ->type_name("BYTES")
      ->group(rank_group);
  command
      .add_flag("--no-overlap", options.no_overlap,
                "sum gradients after backward instead of during backward; the bits are the same")
      ->group(rank_group);
  command
      .add_flag("--shard-optimizer", options.shard_optimizer,
                "each rank keeps only its part of the gradients and of the optimizer's moments "
                "(ZeRO stage 2), and writes its part to --checkpoint, a folder that all ranks "
                "share: less memory, the same bits")
      ->group(rank_group);
  command
      .add_option("--reduction", options.reduction,
                  "format in which ranks exchange gradients, with stochastic rounding; below fp32 "
                  "the weights depend on the number of ranks. Default: the format of --precision, "
                  "which is fp32 in all presets")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "fp8_e4m3fn", "fp8_e5m2"}))
      ->group(rank_group);
  command
      .add_option(
          "--partitions", options.partitions,
          "stages of a pipeline, one rank each; further ranks are replicas; auto: the layout of "
          "the ranks that plan finds fastest within --memory-limit. The bits are the same")
      ->check(CLI::IsMember({"auto"}) | count_from(1, 4096))
      ->capture_default_str()
      ->type_name("N")
      ->group(rank_group);
  command
      .add_option("--microbatches", options.microbatches,
                  "micro-batches of a batch, a power of two, which run in the pipeline's stages at "
                  "the same time")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}))
      ->capture_default_str()
      ->type_name("N")
      ->group(rank_group);
  command
      .add_option("--pipeline", options.pipeline,
                  "simple: all forwards, then all backwards; interleaved: forwards and backwards "
                  "in turn, which keeps fewer micro-batches in memory")
      ->check(CLI::IsMember({"simple", "interleaved"}))
      ->capture_default_str()
      ->group(rank_group);
  command
      .add_option("--optimize", options.optimize,
                  "choose cuts for the shortest predicted step, or for the least memory of the "
                  "largest rank")
      ->check(CLI::IsMember({"speed", "memory"}))
      ->capture_default_str()
      ->group(rank_group);
  command
      .add_option("--partition-file", options.partition_file,
                  "file of the cuts; the program reads an existing file, otherwise measures the "
                  "model and writes the file")
      ->type_name("FILE.json")
      ->group(rank_group);
  command.add_option("--memory-limit", options.memory_limit, memory_limit)
      ->check(count_from(0, std::uint64_t{1} << 60))
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str()
      ->type_name("BYTES")
      ->group(rank_group);
  command
      .add_option("--network", options.network,
                  "bytes a second between ranks, as 1.2e9, by which layouts and cuts for speed are "
                  "chosen; 0: measured, or those of one machine")
      ->check(between(0, 1e15))
      ->capture_default_str()
      ->type_name("X")
      ->group(rank_group);
  command
      .add_option("--placement", options.placement,
                  "neighbouring ranks are the stages of a pipeline (cluster), or the replicas of a "
                  "stage (spread)")
      ->check(CLI::IsMember({"cluster", "spread"}))
      ->capture_default_str()
      ->group(rank_group);
  command
      .add_option(
          "--cut", options.cuts,
          "cut before this piece, for example layer.5, instead of measuring; give the option once "
          "for each stage except the first. Pieces: embeddings, layer.0 ..., head")
      ->type_name("PIECE")
      ->group(rank_group);
  command
      .add_option("--time-limit", options.time_limit,
                  "seconds to wait for another rank; 0: for ever")
      ->check(between(0, 1e9))
      ->capture_default_str()
      ->type_name("X")
      ->group(rank_group);
}
