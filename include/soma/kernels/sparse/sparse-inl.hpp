// The entries of the table of sparse kernels.

#if defined(SOMA_KERNELS_SPARSE_SPARSE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SPARSE_SPARSE_INL_HPP
#undef SOMA_KERNELS_SPARSE_SPARSE_INL_HPP
#else
#define SOMA_KERNELS_SPARSE_SPARSE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/kernels/sparse/bag_dots-inl.hpp>
#include <soma/kernels/sparse/bags-inl.hpp>
#include <soma/kernels/sparse/dwta-inl.hpp>
#include <soma/kernels/sparse/lazy_adam-inl.hpp>
#include <soma/kernels/sparse/panel-inl.hpp>
#include <soma/kernels/sparse/row_steps-inl.hpp>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

[[maybe_unused]] static constexpr SparseKernels sparse_kernels{
    .bag = bag_entry,
    .bag_gradient = bag_gradient_entry,
    .bag_dots = bag_dots_entry,
    .row_sgd = row_sgd_entry,
    .row_adagrad = row_adagrad_entry,
    .row_adam = row_adam_entry,
    .row_lazy_adam = row_lazy_adam_entry,
    .dwta = dwta_entry,
    .panel_pass = panel_pass_entry,
    .panel_scores = panel_scores_entry,
};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
