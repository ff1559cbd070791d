#pragma once

#include <string>
#include <vector>

#include "argosy/comm/codec.h"
#include "argosy/comm/ops.h"

// Collectives on objects: values of any type with a Codec. Their sizes may
// differ by rank. All members must call them, and they block until the result
// is there. Throws as the functions of ops.h do.
namespace argosy {

namespace comm {

// The bytes of all ranks, in rank order.
std::vector<std::string> all_gather_bytes(
    const std::string& own, const GroupPtr& group);

// Replaces the strings by those of `src`. All ranks pass as many.
void broadcast_bytes(
    std::vector<std::string>& bytes, int src, const GroupPtr& group);

// This rank's entry of the list of `src`.
std::string scatter_bytes(
    const std::vector<std::string>& bytes, int src, const GroupPtr& group);

// Whether this rank is `src`.
bool is_source(int src, const GroupPtr& group);

template <typename T>
std::vector<std::string> encode_each(const std::vector<T>& objects) {
  std::vector<std::string> bytes;
  for (const T& object : objects) {
    bytes.push_back(encode(object));
  }
  return bytes;
}

} // namespace comm

// Replaces the list by the objects of all ranks, in rank order.
template <typename T>
void all_gather_object(
    std::vector<T>& object_list,
    const T& object,
    const GroupPtr& group = nullptr) {
  std::vector<T> gathered;
  for (const std::string& bytes :
       comm::all_gather_bytes(comm::encode(object), group)) {
    gathered.push_back(comm::decode<T>(bytes));
  }
  object_list = std::move(gathered);
}

// Replaces the objects of the list by those of `src`. All ranks give lists of
// the same length.
template <typename T>
void broadcast_object_list(
    std::vector<T>& object_list, int src, const GroupPtr& group = nullptr) {
  const bool gives = comm::is_source(src, group);
  std::vector<std::string> bytes(object_list.size());
  if (gives) {
    bytes = comm::encode_each(object_list);
  }
  comm::broadcast_bytes(bytes, src, group);
  if (!gives) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      object_list[i] = comm::decode<T>(bytes[i]);
    }
  }
}

// Replaces the list by one object: this rank's entry of the list of `src`,
// which has one object for each rank of the group.
template <typename T>
void scatter_object_list(
    std::vector<T>& out_object_list,
    const std::vector<T>& in_object_list = {},
    int src = 0,
    const GroupPtr& group = nullptr) {
  std::vector<std::string> bytes;
  if (comm::is_source(src, group)) {
    bytes = comm::encode_each(in_object_list);
  }
  const std::string own = comm::scatter_bytes(bytes, src, group);
  out_object_list.clear();
  out_object_list.push_back(comm::decode<T>(own));
}

} // namespace argosy
