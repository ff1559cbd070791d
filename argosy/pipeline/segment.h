#pragma once

#include <string>
#include <vector>

// Pure functions that split a list of layers into parts. No torch headers.
//
// All return borders: part i has the layers from border i up to border i + 1;
// the first border is 0, the last one the number of layers. No part is empty.
// They throw InvalidArgument when there are fewer layers than parts.
namespace argosy::pipeline {

// Equal numbers of layers; the last parts get the remainder.
std::vector<int> segment_uniform(int layers, int parts);

// Equal numbers of the layers whose class name contains a match of `pattern`, a
// case-insensitive regular expression. Other layers belong to the part of the
// next matching layer; those after the last match, to its part. Throws
// InvalidArgument when the number of matches is 0 or not a multiple of `parts`.
std::vector<int> segment_by_layer(
    const std::vector<std::string>& class_names,
    const std::string& pattern,
    int parts);

// `starts` has the first layer of every part, with or without the final border.
std::vector<int> segment_explicit(
    const std::vector<int>& starts, int layers, int parts);

// Minimizes the cost of the most expensive part; among such splits, minimizes
// the sum of squares, which makes the parts most even. `cost` is per layer and
// must not be negative. Takes O(parts * layers^2).
std::vector<int> balance(const std::vector<double>& cost, int parts);

} // namespace argosy::pipeline
