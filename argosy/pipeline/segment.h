#pragma once

#include <string>
#include <vector>

// Where a list of layers is cut into parts: pure functions. Torch-free.
//
// All return the borders of the parts: part i has the layers from border i up
// to border i + 1; the first border is 0, the last is the number of layers.
// Every part has a layer. Throw InvalidArgument when there are too few layers.
namespace argosy::pipeline {

// Parts of equal numbers of layers; the last ones have one more where it does
// not divide.
std::vector<int> segment_uniform(int layers, int parts);

// Parts with equal numbers of the layers whose class name has a match of
// `pattern`, a regular expression without regard to case. Other layers go with
// the next such layer, those after the last one with it. Throws InvalidArgument
// when the number of matches is not a multiple of `parts`, or none.
std::vector<int> segment_by_layer(
    const std::vector<std::string>& class_names,
    const std::string& pattern,
    int parts);

// The first layer of every part, with or without the end after the last.
std::vector<int> segment_explicit(
    const std::vector<int>& starts, int layers, int parts);

// Parts of which the costliest costs as little as can be; of several such cuts
// that with the least sum of squares, as its parts are the most even. `cost` is
// by layer, and not negative. Takes parts * layers^2 steps.
std::vector<int> balance(const std::vector<double>& cost, int parts);

} // namespace argosy::pipeline
