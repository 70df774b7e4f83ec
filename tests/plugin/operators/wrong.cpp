// Forbidden actions on one processor, each with a number, and allowed ones.

#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>

torch::Tensor wrong(torch::Tensor x, double which) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  switch ((int)which) {
    case 0:
      x.accessor<int, 2>();
      break;
    case 1:
      x.accessor<float, 3>();
      break;
    case 2:
      x.accessor<float, 2>()[1][3];
      break;
    case 3:
      x.accessor<float, 2>()[-1];
      break;
    case 4:
      return torch::zeros({2, 2}, torch::kFloat);
    case 5:
      return torch::zeros(x.sizes(), torch::kInt);
    case 6: {
      torch::Tensor other = torch::zeros({3}, torch::kFloat);
      return torch::add(x, other);
    }
    case 7:
      return torch::bitwise_not(x);
    case 8: {
      torch::Tensor small = torch::zeros({2}, torch::kFloat);
      torch::exp_out(small, x);
      break;
    }
    case 9: {
      auto stream = x.read_stream_accessor<float>();
      for (int i = 0; i <= x.numel(); i++) stream.read();
      break;
    }
    case 10: {
      auto stream = y.write_stream_accessor<float>();
      stream.write(1);
      stream.close();
      stream.write(2);
      break;
    }
    case 11: {
      float* buffer = (float*)torch::neuron::tcm_malloc(8);
      x.tcm_accessor().tensor_to_tcm<float>(buffer, 1, 3);
      break;
    }
    case 12: {
      float* buffer = (float*)torch::neuron::tcm_malloc(400);
      x.tcm_accessor().tensor_to_tcm<float>(buffer, 5, 2);
      break;
    }
    case 13: {
      float local[2];
      x.tcm_accessor().tensor_to_tcm<float>(local, 0, 2);
      break;
    }
    case 14: {
      void* buffer = torch::neuron::tcm_malloc(16);
      torch::neuron::tcm_free(buffer);
      torch::neuron::tcm_free(buffer);
      break;
    }
    case 30: {
      float* buffer = (float*)torch::neuron::tcm_malloc(8);
      buffer[2] = 1;
      break;
    }
    case 15:
      torch::neuron::tcm_free(&which);
      break;
    case 16: {
      auto one = y.write_stream_accessor<float>();
      auto two = y.read_stream_accessor<float>();
      break;
    }
    case 17: {
      auto stream = y.write_stream_accessor<float>();
      y.accessor<float, 2>()[0][0] = 1;
      break;
    }
    case 18:
      torch::zeros({2}, torch::kLong);
      break;
    case 19:
      x.accessor<float, 2>()[0][1] = 5;
      break;
    case 20:
      x.fill_(1);
      break;
    case 21:
      torch::tan_out(x, y);
      break;
    case 22:
      get_dst_tensor();  // nothing is written
      break;
    case 23:
      torch::zeros({1, 1, 1, 1, 65536}, torch::kFloat);
      break;
    case 24: {
      torch::Tensor ints = torch::zeros({2}, torch::kInt);
      torch::exp(ints);
      break;
    }
    case 25:
      return torch::Tensor();
    case 26:
      x.size(2);
      break;
    case 27: {
      torch::Tensor ints = torch::zeros(x.sizes(), torch::kInt);
      return torch::mul(x, ints);
    }
    case 28:
      torch::zeros({2}, torch::TensorOptions());
      break;
    case 29: {
      torch::Tensor out = get_dst_tensor();
      out.accessor<float, 2>()[0][0] = 1;
      out.accessor<float, 2>()[0][2] = 1;
      return out;
    }
  }
  return y;
}

// Allowed actions that look odd.
static torch::Tensor kept;
torch::Tensor odd(const torch::Tensor& x, double which) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  switch ((int)which) {
    case 0: {  // the pool: 16 KB and not a byte more
      void* all = torch::neuron::tcm_malloc(16 * 1024);
      void* more = torch::neuron::tcm_malloc(1);
      y.fill_(all != nullptr && more == nullptr ? 1 : 0);
      torch::neuron::tcm_free(all);
      torch::neuron::tcm_free(nullptr);
      break;
    }
    case 1: {  // four streams fill it; the fifth works without
      auto a = x.read_stream_accessor<float>(), b = x.read_stream_accessor<float>();
      auto c = x.read_stream_accessor<float>(), d = x.read_stream_accessor<float>();
      auto e = x.read_stream_accessor<float>();
      float sum = 0;
      for (int i = 0; i < x.numel(); i++)
        sum += a.read() + b.read() + c.read() + d.read() + e.read();
      y.fill_(torch::neuron::tcm_malloc(1) == nullptr ? sum : 0);
      break;
    }
    case 2: {  // quietly incoherent: what a stream holds is not there yet
      y.set_accessor_coherence_policy(torch::CoherencyEnforcer::INCOHERENT_QUIET);
      auto stream = y.write_stream_accessor<float>();
      stream.write(7);
      float before = y.accessor<float, 2>()[0][0];
      stream.close();
      y.accessor<float, 2>()[0][1] = before;
      break;
    }
    case 3: {  // the same with a word about it
      y.set_accessor_coherence_policy(torch::CoherencyEnforcer::Policy::INCOHERENT_VERBOSE);
      auto stream = y.write_stream_accessor<float>();
      y.accessor<float, 2>()[0][1] = 3;
      y.accessor<float, 2>()[0][2] = 4;
      break;
    }
    case 4:  // left over
      torch::neuron::tcm_malloc(100);
      break;
    case 5:  // a handle that stays
      kept = y;
      break;
    case 6: {
      torch::Tensor i = torch::eye(2, 3, torch::kFloat);
      torch::Tensor twos = torch::full({2, 3}, 2, torch::kFloat);
      return torch::sub(torch::pow(twos, 3.0), torch::div(i, torch::ones({2, 3}, torch::kFloat)),
                        2);
    }
  }
  return y;
}

// Sizes that the shape function may say.
torch::Tensor sized(const torch::Tensor& x, double) { return x; }
