#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// TensorBoard's file format: records of protobuf messages of type
// tensorflow.Event, of which the few fields that scalars need are written here.
namespace argosy::observe {

// A record: length, its checksum, data, its checksum; all little-endian.
std::string framed(std::string_view data);

// The event that begins a file.
std::string version_event(double time);

// An event with one number.
std::string scalar_event(
    double time, std::int64_t step, std::string_view tag, float value);

} // namespace argosy::observe
