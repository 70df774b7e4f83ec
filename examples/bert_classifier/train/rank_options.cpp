#include "bert_classifier/train/rank_options.hpp"

#include "bert_classifier/train/validators.hpp"

namespace {

const std::string rank_group = "Several ranks (started by mpirun)";

}  // namespace

void add_ranks(CLI::App& command, RankOptions& options) {
  // CLI11 first multiplies by the unit, as in 4MiB, and then checks the range.
  command
      .add_option("--bucket-size", options.bucket_bytes,
                  "bytes of gradients (or 512KiB, 25MiB) that are summed over ranks at once; "
                  "results do not depend on it")
      ->check(count_from(1, std::uint64_t{1} << 40))
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str()
      ->type_name("BYTES")
      ->group(rank_group);
  command
      .add_flag("--no-overlap", options.no_overlap,
                "sum gradients behind backward, not during it: the same bits")
      ->group(rank_group);
  command
      .add_flag("--shard-optimizer", options.shard_optimizer,
                "each rank keeps its part of the gradients and of the optimizer's moments only "
                "(ZeRO stage 2), and writes it to --checkpoint, a folder that all ranks share: the "
                "same bits, less memory")
      ->group(rank_group);
  command
      .add_option("--reduction", options.reduction,
                  "what ranks exchange of gradients, rounded stochastically; the weights then "
                  "depend on the number of ranks. Default: as --precision says, which of all "
                  "presets is fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "fp8_e4m3fn", "fp8_e5m2"}))
      ->group(rank_group);
  command
      .add_option("--partitions", options.partitions,
                  "stages of a pipeline that the model is cut into, one rank each; further ranks "
                  "are replicas: the same bits")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
      ->capture_default_str()
      ->type_name("N")
      ->group(rank_group);
  command
      .add_option("--microbatches", options.microbatches,
                  "parts of a batch, a power of two, that are in the pipeline's stages at once")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}))
      ->capture_default_str()
      ->type_name("N")
      ->group(rank_group);
  command
      .add_option("--pipeline", options.pipeline,
                  "simple: all forwards, then all backwards; interleaved: in turns, which holds "
                  "fewer micro-batches")
      ->check(CLI::IsMember({"simple", "interleaved"}))
      ->capture_default_str()
      ->group(rank_group);
  command
      .add_option("--optimize", options.optimize,
                  "what the cuts make small: the time of the slowest stage, or the memory of the "
                  "largest")
      ->check(CLI::IsMember({"speed", "memory"}))
      ->capture_default_str()
      ->group(rank_group);
  command
      .add_option("--partition-file", options.partition_file,
                  "where the cuts are kept: used if it is there, else written after a profile")
      ->type_name("FILE.json")
      ->group(rank_group);
  command
      .add_option("--placement", options.placement,
                  "which ranks are neighbours: the stages of a pipeline (cluster), or the replicas "
                  "of a stage (spread)")
      ->check(CLI::IsMember({"cluster", "spread"}))
      ->capture_default_str()
      ->group(rank_group);
  command
      .add_option("--cut", options.cuts,
                  "cut before this piece instead, for example layer.5; once for each stage but the "
                  "first. Pieces: embeddings, layer.0 ..., head")
      ->type_name("PIECE")
      ->group(rank_group);
  command
      .add_option("--time-limit", options.time_limit,
                  "seconds within which a rank has to answer; 0: for ever")
      ->check(between(0, 1e9))
      ->capture_default_str()
      ->type_name("X")
      ->group(rank_group);
}
