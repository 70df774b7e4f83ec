#pragma once
// Curves of a run as a picture (SVG), and a page (HTML) with the results of a run. Needs no
// library. train.hpp does not include it, so that only units that draw pay for it.

#include <soma/train/curves/page.hpp>
#include <soma/train/curves/run_curves.hpp>
