#!/usr/bin/env bash
# bert_classifier train on several machines of a Slurm cluster. Submit it with: sbatch slurm.sh
#
# Ranks (nodes x ntasks-per-node) are a power of two, up to --shards. The weights do not depend on how many there are, so
# change these numbers as the cluster has room; a job that goes on from a checkpoint may have others than the one before.
#SBATCH --job-name=bert_classifier
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --requeue
# Two minutes before the time is over Slurm asks the ranks to end: they finish the step and write a checkpoint. (Where
# mpirun starts them, below, they go on from the last checkpoint instead.)
#SBATCH --signal=TERM@120
#SBATCH --output=%x-%j.log
set -euo pipefail

# On a file system that all machines see, or copied to the same path on each. Only rank 0 writes.
program=${PROGRAM:-$PWD/build/release/bin/bert_classifier}
data=${DATA:-$PWD/sst2}
results=${RESULTS:-$PWD/results}
mkdir -p "$results"

arguments=(
  --data "$data"
  --epochs 3
  --batch-size 64
  --shards 8
  --checkpoint "$results/checkpoint"
  --checkpoint-every 200
  --resume
  --time-limit 300
  --log-json "$results/log.jsonl"
  --output "$results/model"
)

# srun starts the ranks itself where it speaks PMIx with the MPI library (srun --mpi=list shows what it speaks), and gives
# each its cores. Otherwise mpirun does: it learns the machines from Slurm.
if srun --mpi=list 2>&1 | grep -qw pmix; then
  srun --mpi=pmix --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "$program" train "${arguments[@]}"
else
  mpirun -n "$SLURM_NTASKS" --map-by "slot:PE=${SLURM_CPUS_PER_TASK:-1}" "$program" train "${arguments[@]}"
fi
