#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// TensorBoard's file format: framed protobuf messages of type tensorflow.Event.
// Only the fields that scalars need are implemented.
namespace argosy::observe {

// Frames a record: length, its checksum, data, its checksum; little-endian.
std::string framed(std::string_view data);

// Returns the event that a file begins with.
std::string version_event(double time);

// Returns an event with one scalar.
std::string scalar_event(
    double time, std::int64_t step, std::string_view tag, float value);

} // namespace argosy::observe
