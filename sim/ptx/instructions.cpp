// SPDX-License-Identifier: Apache-2.0
#include "sim/ptx/instructions.hpp"

#include "model/base/numeric.hpp"
#include "sim/ptx/lanes.hpp"
#include "sim/ptx/memory_instructions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace onchip::ptx {
namespace {

void nothing(Warp&, const Instruction&, u32) {}

// NOLINTBEGIN: one instruction in a line
// clang-format off
std::vector<InstructionRow> integer_rows() {
  return {
      {"add.u16 add.s16", each<[](u16 a, u16 b) -> u16 { return static_cast<u16>(a + b); }>()},
      {"add.u32 add.s32", each<[](u32 a, u32 b) -> u32 { return a + b; }>()},
      {"add.u64 add.s64", each<[](u64 a, u64 b) -> u64 { return a + b; }>()},
      {"sub.u16 sub.s16", each<[](u16 a, u16 b) -> u16 { return static_cast<u16>(a - b); }>()},
      {"sub.u32 sub.s32", each<[](u32 a, u32 b) -> u32 { return a - b; }>()},
      {"sub.u64 sub.s64", each<[](u64 a, u64 b) -> u64 { return a - b; }>()},
      {"mul.lo.u16 mul.lo.s16", each<[](u16 a, u16 b) -> u16 { return static_cast<u16>(u32{a} * b); }>()},
      {"mul.lo.u32 mul.lo.s32", each<[](u32 a, u32 b) -> u32 { return a * b; }>()},
      {"mul.lo.u64 mul.lo.s64", each<[](u64 a, u64 b) -> u64 { return a * b; }>()},
      {"mul.hi.u32", each<[](u32 a, u32 b) -> u32 { return static_cast<u32>(u64{a} * b >> 32); }>()},
      {"mul.hi.s32", each<[](u32 a, u32 b) -> u32 { return static_cast<u32>(s64{static_cast<s32>(a)} * static_cast<s32>(b) >> 32); }>()},
      {"mul.wide.u16", each<[](u16 a, u16 b) -> u32 { return u32{a} * b; }>()},
      {"mul.wide.s16", each<[](u16 a, u16 b) -> u32 { return static_cast<u32>(s32{static_cast<s16>(a)} * static_cast<s16>(b)); }>()},
      {"mul.wide.u32", each<[](u32 a, u32 b) -> u64 { return u64{a} * b; }>()},
      {"mul.wide.s32", each<[](u32 a, u32 b) -> u64 { return static_cast<u64>(s64{static_cast<s32>(a)} * static_cast<s32>(b)); }>()},
      {"mad.lo.u32 mad.lo.s32", each<[](u32 a, u32 b, u32 c) -> u32 { return a * b + c; }>()},
      {"mad.lo.u64 mad.lo.s64", each<[](u64 a, u64 b, u64 c) -> u64 { return a * b + c; }>()},
      {"mad.wide.u32", each<[](u32 a, u32 b, u64 c) -> u64 { return u64{a} * b + c; }>()},
      {"mad.wide.s32", each<[](u32 a, u32 b, u64 c) -> u64 { return static_cast<u64>(s64{static_cast<s32>(a)} * static_cast<s32>(b)) + c; }>()},
      {"div.u32", each<[](u32 a, u32 b) -> u32 { return divided(a, b); }>()},
      {"div.s32", each<[](u32 a, u32 b) -> u32 { return static_cast<u32>(divided(static_cast<s32>(a), static_cast<s32>(b))); }>()},
      {"div.u64", each<[](u64 a, u64 b) -> u64 { return divided(a, b); }>()},
      {"div.s64", each<[](u64 a, u64 b) -> u64 { return static_cast<u64>(divided(static_cast<s64>(a), static_cast<s64>(b))); }>()},
      {"rem.u32", each<[](u32 a, u32 b) -> u32 { return remainder_of(a, b); }>()},
      {"rem.s32", each<[](u32 a, u32 b) -> u32 { return static_cast<u32>(remainder_of(static_cast<s32>(a), static_cast<s32>(b))); }>()},
      {"rem.u64", each<[](u64 a, u64 b) -> u64 { return remainder_of(a, b); }>()},
      {"rem.s64", each<[](u64 a, u64 b) -> u64 { return static_cast<u64>(remainder_of(static_cast<s64>(a), static_cast<s64>(b))); }>()},
      {"min.u32", each<[](u32 a, u32 b) -> u32 { return std::min(a, b); }>()},
      {"min.s32", each<[](u32 a, u32 b) -> u32 { return static_cast<u32>(std::min(static_cast<s32>(a), static_cast<s32>(b))); }>()},
      {"min.u64", each<[](u64 a, u64 b) -> u64 { return std::min(a, b); }>()},
      {"min.s64", each<[](u64 a, u64 b) -> u64 { return static_cast<u64>(std::min(static_cast<s64>(a), static_cast<s64>(b))); }>()},
      {"max.u32", each<[](u32 a, u32 b) -> u32 { return std::max(a, b); }>()},
      {"max.s32", each<[](u32 a, u32 b) -> u32 { return static_cast<u32>(std::max(static_cast<s32>(a), static_cast<s32>(b))); }>()},
      {"max.u64", each<[](u64 a, u64 b) -> u64 { return std::max(a, b); }>()},
      {"max.s64", each<[](u64 a, u64 b) -> u64 { return static_cast<u64>(std::max(static_cast<s64>(a), static_cast<s64>(b))); }>()},
      {"neg.s32", each<[](u32 a) -> u32 { return 0 - a; }>()},
      {"neg.s64", each<[](u64 a) -> u64 { return 0 - a; }>()},
      {"abs.s32", each<[](u32 a) -> u32 { return static_cast<s32>(a) < 0 ? 0 - a : a; }>()},
      {"abs.s64", each<[](u64 a) -> u64 { return static_cast<s64>(a) < 0 ? 0 - a : a; }>()},
  };
}

std::vector<InstructionRow> bit_rows() {
  return {
      {"and.b16", each<[](u16 a, u16 b) -> u16 { return a & b; }>()},
      {"and.b32", each<[](u32 a, u32 b) -> u32 { return a & b; }>()},
      {"and.b64", each<[](u64 a, u64 b) -> u64 { return a & b; }>()},
      {"or.b16", each<[](u16 a, u16 b) -> u16 { return a | b; }>()},
      {"or.b32", each<[](u32 a, u32 b) -> u32 { return a | b; }>()},
      {"or.b64", each<[](u64 a, u64 b) -> u64 { return a | b; }>()},
      {"xor.b16", each<[](u16 a, u16 b) -> u16 { return a ^ b; }>()},
      {"xor.b32", each<[](u32 a, u32 b) -> u32 { return a ^ b; }>()},
      {"xor.b64", each<[](u64 a, u64 b) -> u64 { return a ^ b; }>()},
      {"not.b16", each<[](u16 a) -> u16 { return static_cast<u16>(~a); }>()},
      {"not.b32", each<[](u32 a) -> u32 { return ~a; }>()},
      {"not.b64", each<[](u64 a) -> u64 { return ~a; }>()},
      {"and.pred", as("Ppp", predicates<[](u32 a, u32 b) { return a & b; }>)},
      {"or.pred", as("Ppp", predicates<[](u32 a, u32 b) { return a | b; }>)},
      {"xor.pred", as("Ppp", predicates<[](u32 a, u32 b) { return a ^ b; }>)},
      {"xor.pred", as("Pp#", predicates<[](u32 a, u32 b) { return b != 0 ? ~a : a; }>)},
      {"not.pred", as("Pp", predicates<[](u32 a, u32) { return ~a; }>)},
      {"mov.pred", as("Pp", predicates<[](u32 a, u32) { return a; }>)},
      {"mov.pred", as("P#", predicates<[](u32 a, u32) { return a != 0 ? ~0u : 0u; }>)},
      {"shl.b16", each<[](u16 a, u32 b) -> u16 { return shift_left(a, b); }>()},
      {"shl.b32", each<[](u32 a, u32 b) -> u32 { return shift_left(a, b); }>()},
      {"shl.b64", each<[](u64 a, u32 b) -> u64 { return shift_left(a, b); }>()},
      {"shr.u16 shr.b16", each<[](u16 a, u32 b) -> u16 { return shift_right(a, b); }>()},
      {"shr.u32 shr.b32", each<[](u32 a, u32 b) -> u32 { return shift_right(a, b); }>()},
      {"shr.u64 shr.b64", each<[](u64 a, u32 b) -> u64 { return shift_right(a, b); }>()},
      {"shr.s16", each<[](u16 a, u32 b) -> u16 { return static_cast<u16>(shift_right(static_cast<s16>(a), b)); }>()},
      {"shr.s32", each<[](u32 a, u32 b) -> u32 { return static_cast<u32>(shift_right(static_cast<s32>(a), b)); }>()},
      {"shr.s64", each<[](u64 a, u32 b) -> u64 { return static_cast<u64>(shift_right(static_cast<s64>(a), b)); }>()},
      {"shf.l.wrap.b32", each<[](u32 a, u32 b, u32 c) -> u32 { return static_cast<u32>((u64{b} << 32 | a) << (c & 31) >> 32); }>()},
      {"shf.r.wrap.b32", each<[](u32 a, u32 b, u32 c) -> u32 { return static_cast<u32>((u64{b} << 32 | a) >> (c & 31)); }>()},
      {"shf.l.clamp.b32", each<[](u32 a, u32 b, u32 c) -> u32 { return static_cast<u32>((u64{b} << 32 | a) << std::min(c, 32u) >> 32); }>()},
      {"shf.r.clamp.b32", each<[](u32 a, u32 b, u32 c) -> u32 { return static_cast<u32>((u64{b} << 32 | a) >> std::min(c, 32u)); }>()},
      {"bfi.b64", each<[](u64 a, u64 b, u32 c, u32 d) -> u64 { return insert_bits(a, b, c, d); }>()},
      {"bfi.b32", each<[](u32 a, u32 b, u32 c, u32 d) -> u32 { return insert_bits(a, b, c, d); }>()},
      {"bfe.u32", each<[](u32 a, u32 b, u32 c) -> u32 { return extract_bits(a, b, c, false); }>()},
      {"bfe.s32", each<[](u32 a, u32 b, u32 c) -> u32 { return extract_bits(a, b, c, true); }>()},
      {"prmt.b32", each<[](u32 a, u32 b, u32 c) -> u32 { return permute(a, b, c); }>()},
      {"lop3.b32", each<[](u32 a, u32 b, u32 c, u32 table) -> u32 { return looked_up(a, b, c, table); }>()},
      {"brev.b32", each<[](u32 a) -> u32 { return reversed(a); }>()},
      {"popc.b64", each<[](u64 a) -> u32 { return static_cast<u32>(std::popcount(a)); }>()},
      {"popc.b32", each<[](u32 a) -> u32 { return static_cast<u32>(std::popcount(a)); }>()},
      {"clz.b32", each<[](u32 a) -> u32 { return static_cast<u32>(std::countl_zero(a)); }>()},
      {"bfind.u32", each<[](u32 a) -> u32 { return 31u - static_cast<u32>(std::countl_zero(a)); }>()},
      {"bfind.shiftamt.u32", each<[](u32 a) -> u32 { return a == 0 ? ~0u : static_cast<u32>(std::countl_zero(a)); }>()},
  };
}

std::vector<InstructionRow> float_rows() {
  return {
      {"add.f32 add.rn.f32", each<[](u32 a, u32 b) -> u32 { return float_bits(as_float(a) + as_float(b)); }>()},
      {"sub.f32 sub.rn.f32", each<[](u32 a, u32 b) -> u32 { return float_bits(as_float(a) - as_float(b)); }>()},
      {"mul.f32 mul.rn.f32", each<[](u32 a, u32 b) -> u32 { return float_bits(as_float(a) * as_float(b)); }>()},
      {"fma.rn.f32", each<[](u32 a, u32 b, u32 c) -> u32 { return float_bits(std::fma(as_float(a), as_float(b), as_float(c))); }>()},
      {"div.rn.f32", each<[](u32 a, u32 b) -> u32 { return float_bits(as_float(a) / as_float(b)); }>()},
      {"sqrt.rn.f32", each<[](u32 a) -> u32 { return float_bits(std::sqrt(as_float(a))); }>()},
      {"rcp.rn.f32", each<[](u32 a) -> u32 { return float_bits(1.0f / as_float(a)); }>()},
      {"neg.f32", each<[](u32 a) -> u32 { return a ^ 0x80000000u; }>()},
      {"abs.f32", each<[](u32 a) -> u32 { return a & 0x7fffffffu; }>()},
      {"copysign.f32", each<[](u32 sign, u32 a) -> u32 { return (a & 0x7fffffffu) | (sign & 0x80000000u); }>()},
      {"min.NaN.f32", each<[](u32 a, u32 b) -> u32 { return is_nan(a) || is_nan(b) ? 0x7fffffffu : float_min(a, b); }>()},
      {"min.f16x2", each<[](u32 a, u32 b) -> u32 { return halves(half_min, a, b); }>()},
      {"min.f32", each<[](u32 a, u32 b) -> u32 { return float_min(a, b); }>()},
      {"max.f32", each<[](u32 a, u32 b) -> u32 { return float_max(a, b); }>()},
      {"ex2.approx.ftz.f32", each<[](u32 a) -> u32 { return approximately(a, [](double x) { return std::exp2(x); }); }>()},
      {"lg2.approx.ftz.f32", each<[](u32 a) -> u32 { return approximately(a, [](double x) { return std::log2(x); }); }>()},
      {"rcp.approx.ftz.f32", each<[](u32 a) -> u32 { return approximately(a, [](double x) { return 1 / x; }); }>()},
      {"sqrt.approx.ftz.f32", each<[](u32 a) -> u32 { return approximately(a, [](double x) { return std::sqrt(x); }); }>()},
      {"rsqrt.approx.ftz.f32", each<[](u32 a) -> u32 { return approximately(a, [](double x) { return 1 / std::sqrt(x); }); }>()},
      {"tanh.approx.f32", each<[](u32 a) -> u32 { return float_bits(static_cast<float>(std::tanh(double{as_float(a)}))); }>()},
      {"fma.rn.f16", each<[](u16 a, u16 b, u16 c) -> u16 { return half_fma(a, b, c); }>()},
      {"fma.rn.f16x2", each<[](u32 a, u32 b, u32 c) -> u32 { return halves(half_fma, a, b, c); }>()},
      {"mul.rn.f16x2 mul.f16x2", each<[](u32 a, u32 b) -> u32 { return halves([](u16 x, u16 y) { return to_half(double{half_to_float(x)} * half_to_float(y)); }, a, b); }>()},
      {"add.rn.f16x2 add.f16x2", each<[](u32 a, u32 b) -> u32 { return halves([](u16 x, u16 y) { return to_half(double{half_to_float(x)} + half_to_float(y)); }, a, b); }>()},
  };
}

template <typename T, auto kOf>
Meaning compared() {
  using U = std::make_unsigned_t<T>;
  return each<[](U a, U b) -> bool { return kOf(static_cast<T>(a), static_cast<T>(b)); }>();
}
template <auto kOf>
Meaning floats_compared() {
  return each<[](u32 a, u32 b) -> bool { return kOf(as_float(a), as_float(b)); }>();
}

std::vector<InstructionRow> comparison_rows() {
  constexpr auto eq = [](auto a, auto b) { return a == b; };
  constexpr auto ne = [](auto a, auto b) { return a != b; };
  constexpr auto lt = [](auto a, auto b) { return a < b; };
  constexpr auto le = [](auto a, auto b) { return a <= b; };
  constexpr auto gt = [](auto a, auto b) { return a > b; };
  constexpr auto ge = [](auto a, auto b) { return a >= b; };
  constexpr auto nan = [](float a, float b) { return a != a || b != b; };
  constexpr auto num = [](float a, float b) { return a == a && b == b; };
  constexpr auto apart = [](float a, float b) { return a < b || a > b; };
  constexpr auto equ = [](float a, float b) { return !(a < b || a > b); };
  constexpr auto ltu = [](float a, float b) { return !(a >= b); };
  constexpr auto leu = [](float a, float b) { return !(a > b); };
  constexpr auto gtu = [](float a, float b) { return !(a <= b); };
  constexpr auto geu = [](float a, float b) { return !(a < b); };
  return {
      {"setp.eq.u16 setp.eq.s16 setp.eq.b16", compared<u16, eq>()}, {"setp.ne.u16 setp.ne.s16 setp.ne.b16", compared<u16, ne>()},
      {"setp.lt.u16", compared<u16, lt>()}, {"setp.le.u16", compared<u16, le>()}, {"setp.gt.u16", compared<u16, gt>()}, {"setp.ge.u16", compared<u16, ge>()},
      {"setp.lt.s16", compared<s16, lt>()}, {"setp.le.s16", compared<s16, le>()}, {"setp.gt.s16", compared<s16, gt>()}, {"setp.ge.s16", compared<s16, ge>()},
      {"setp.eq.u32 setp.eq.s32 setp.eq.b32", compared<u32, eq>()}, {"setp.ne.u32 setp.ne.s32 setp.ne.b32", compared<u32, ne>()},
      {"setp.lt.u32 setp.lo.u32", compared<u32, lt>()}, {"setp.le.u32 setp.ls.u32", compared<u32, le>()},
      {"setp.gt.u32 setp.hi.u32", compared<u32, gt>()}, {"setp.ge.u32 setp.hs.u32", compared<u32, ge>()},
      {"setp.lt.s32", compared<s32, lt>()}, {"setp.le.s32", compared<s32, le>()}, {"setp.gt.s32", compared<s32, gt>()}, {"setp.ge.s32", compared<s32, ge>()},
      {"setp.eq.u64 setp.eq.s64 setp.eq.b64", compared<u64, eq>()}, {"setp.ne.u64 setp.ne.s64 setp.ne.b64", compared<u64, ne>()},
      {"setp.lt.u64 setp.lo.u64", compared<u64, lt>()}, {"setp.le.u64 setp.ls.u64", compared<u64, le>()},
      {"setp.gt.u64 setp.hi.u64", compared<u64, gt>()}, {"setp.ge.u64 setp.hs.u64", compared<u64, ge>()},
      {"setp.lt.s64", compared<s64, lt>()}, {"setp.le.s64", compared<s64, le>()}, {"setp.gt.s64", compared<s64, gt>()}, {"setp.ge.s64", compared<s64, ge>()},
      {"setp.eq.f32", floats_compared<eq>()}, {"setp.lt.f32", floats_compared<lt>()}, {"setp.le.f32", floats_compared<le>()},
      {"setp.gt.f32", floats_compared<gt>()}, {"setp.ge.f32", floats_compared<ge>()},
      {"setp.ne.f32", floats_compared<apart>()},
      {"setp.equ.f32", floats_compared<equ>()}, {"setp.neu.f32", floats_compared<ne>()},
      {"setp.ltu.f32", floats_compared<ltu>()}, {"setp.leu.f32", floats_compared<leu>()},
      {"setp.gtu.f32", floats_compared<gtu>()}, {"setp.geu.f32", floats_compared<geu>()},
      {"setp.nan.f32", floats_compared<nan>()}, {"setp.num.f32", floats_compared<num>()},
  };
}

std::vector<InstructionRow> conversion_rows() {
  return {
      {"cvt.u16.u32 cvt.s16.s32 cvt.u16.s32 cvt.s16.u32", each<[](u32 a) -> u16 { return static_cast<u16>(a); }>()},
      {"cvt.u16.u64 cvt.s16.s64", each<[](u64 a) -> u16 { return static_cast<u16>(a); }>()},
      {"cvt.u32.u16 cvt.s32.u16", each<[](u16 a) -> u32 { return a; }>()},
      {"cvt.s32.s16 cvt.u32.s16", each<[](u16 a) -> u32 { return static_cast<u32>(s32{static_cast<s16>(a)}); }>()},
      {"cvt.u32.u64 cvt.s32.s64 cvt.u32.s64 cvt.s32.u64", each<[](u64 a) -> u32 { return static_cast<u32>(a); }>()},
      {"cvt.u64.u32 cvt.s64.u32", each<[](u32 a) -> u64 { return a; }>()},
      {"cvt.s64.s32 cvt.u64.s32", each<[](u32 a) -> u64 { return static_cast<u64>(s64{static_cast<s32>(a)}); }>()},
      {"cvt.s64.s32", each<[](u64 a) -> u64 { return static_cast<u64>(s64{static_cast<s32>(a)}); }>()},
      {"cvt.u64.u16 cvt.s64.u16", each<[](u16 a) -> u64 { return a; }>()},
      {"cvt.s64.s16 cvt.u64.s16", each<[](u16 a) -> u64 { return static_cast<u64>(s64{static_cast<s16>(a)}); }>()},
      {"cvt.f32.f16", each<[](u16 a) -> u32 { return float_bits(half_to_float(a)); }>()},
      {"cvt.f32.bf16", each<[](u16 a) -> u32 { return float_bits(bf16_to_float(a)); }>()},
      {"cvt.rn.f16.f32", each<[](u32 a) -> u16 { return to_half(as_float(a)); }>()},
      {"cvt.rn.bf16.f32", each<[](u32 a) -> u16 { return to_bf16(as_float(a)); }>()},
      {"cvt.rn.relu.f16x2.f32", each<[](u32 a, u32 b) -> u32 { return u32{positive_half(to_half(as_float(a)))} << 16 | positive_half(to_half(as_float(b))); }>()},
      {"cvt.rz.relu.f16x2.f32", each<[](u32 a, u32 b) -> u32 { return u32{positive_half(to_half_cut(as_float(a)))} << 16 | positive_half(to_half_cut(as_float(b))); }>()},
      {"cvt.s32.s8 cvt.u32.s8", each<[](u32 a) -> u32 { return static_cast<u32>(static_cast<s32>(static_cast<std::int8_t>(a))); }>()},
      {"cvt.s32.s8 cvt.u32.s8", each<[](u16 a) -> u32 { return static_cast<u32>(static_cast<s32>(static_cast<std::int8_t>(a))); }>()},
      {"cvt.rn.f16x2.f32", each<[](u32 a, u32 b) -> u32 { return u32{to_half(as_float(a))} << 16 | to_half(as_float(b)); }>()},
      {"cvt.rn.f16x2.e4m3x2", each<[](u16 a) -> u32 { return u32{to_half(from_e4m3(static_cast<std::uint8_t>(a >> 8)))} << 16 | to_half(from_e4m3(static_cast<std::uint8_t>(a))); }>()},
      {"cvt.rn.bf16x2.f32", each<[](u32 a, u32 b) -> u32 { return u32{to_bf16(as_float(a))} << 16 | to_bf16(as_float(b)); }>()},
      {"cvt.rn.f32.u32", each<[](u32 a) -> u32 { return float_bits(static_cast<float>(a)); }>()},
      {"cvt.rn.f32.s32", each<[](u32 a) -> u32 { return float_bits(static_cast<float>(static_cast<s32>(a))); }>()},
      {"cvt.rzi.u32.f32", each<[](u32 a) -> u32 { return truncated<u32>(as_float(a)); }>()},
      {"cvt.rzi.s32.f32", each<[](u32 a) -> u32 { return static_cast<u32>(truncated<s32>(as_float(a))); }>()},
      {"cvta.to.global.u64 cvta.global.u64", each<[](u64 a) -> u64 { return a; }>()},
      {"cvta.shared.u64", each<[](u64 a) -> u64 { return a | kSharedWindow; }>()},
      {"cvta.to.shared.u64", each<[](u64 a) -> u64 { return a & ~kSharedWindow; }>()},
      {"cvta.local.u64", each<[](u64 a) -> u64 { return a | kLocalWindow; }>()},
      {"cvta.to.local.u64", each<[](u64 a) -> u64 { return a & ~kLocalWindow; }>()},
  };
}

std::vector<InstructionRow> move_rows() {
  return {
      {"mov.u16 mov.s16 mov.b16", as("Hh", move<u16>)},
      {"mov.u32 mov.s32 mov.b32 mov.f32", as("Ww", move<u32>)},
      {"mov.u64 mov.s64 mov.b64 mov.f64", as("Qq", move<u64>)},
      {"mov.b32", as("{HH}w", split<u32, u16>)}, {"mov.b32", as("W{hh}", join<u32, u16>)},
      {"mov.b64", as("{WW}q", split<u64, u32>)}, {"mov.b64", as("Q{ww}", join<u64, u32>)},
      {"mov.b128", as("{QQ}x", split<Word16, u64>)}, {"mov.b128", as("X{qq}", join<Word16, u64>)},
      {"selp.b16 selp.u16 selp.s16", as("Hhhp", select<u16>)},
      {"selp.b32 selp.u32 selp.s32 selp.f32", as("Wwwp", select<u32>)},
      {"selp.b64 selp.u64 selp.s64 selp.f64", as("Qqqp", select<u64>)},
  };
}

std::vector<InstructionRow> order_rows() {
  return {
      {"bar.warp.sync", as("w", nothing, Flow::warp_sync)},
      {"bra bra.uni", as("l", nothing, Flow::branch)},
      {"ret ret.uni exit", as("", nothing, Flow::exit)},
      {"bar.sync barrier.sync barrier.sync.aligned", as("w", nothing, Flow::block_barrier)},
      {"bar.sync barrier.sync barrier.sync.aligned barrier.cta.sync.aligned", as("ww", nothing, Flow::block_barrier)},
      {"bar.red.or.pred barrier.red.or.pred barrier.red.or.pred.aligned", as("Pwp", nothing, Flow::block_any)},
      {"bar.arrive barrier.arrive barrier.arrive.aligned barrier.cta.arrive.aligned", as("ww", nothing, Flow::block_arrive)},
      {"barrier.cluster.arrive barrier.cluster.arrive.aligned barrier.cluster.arrive.release barrier.cluster.arrive.release.aligned", as("", nothing, Flow::cluster_arrive)},
      {"barrier.cluster.wait barrier.cluster.wait.aligned barrier.cluster.wait.acquire barrier.cluster.wait.acquire.aligned", as("", nothing, Flow::cluster_wait)},
      // All of memory happens in one order, so that these have nothing to do.
      {"fence.acq_rel.cta fence.acq_rel.cluster fence.acq_rel.gpu fence.acq_rel.sys fence.sc.cta fence.sc.cluster fence.sc.gpu fence.sc.sys fence.proxy.async", as("", nothing)},
      {"setmaxnreg.inc.sync.aligned.u32 setmaxnreg.dec.sync.aligned.u32", as("w", nothing)},
      {"membar.cta membar.gl membar.sys fence.mbarrier_init.release.cluster", as("", nothing)},
      {"prefetch.global.L2", as("[", nothing)},
      {"nanosleep.u32", as("w", nothing, Flow::plain, /*polls=*/true)},
  };
}
// clang-format on
// NOLINTEND

std::vector<std::string_view> split_at(char between, std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(between, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

using Table = std::unordered_map<std::string, std::vector<Meaning>>;

const Table& table() {
  static const Table all = [] {
    Table rows;
    for (const auto& part : {integer_rows(), bit_rows(), float_rows(), comparison_rows(), conversion_rows(),
                             move_rows(), order_rows(), warp_rows(), async_rows()}) {
      for (const InstructionRow& row : part) {
        for (const std::string_view opcode : split_at(' ', row.opcodes)) {
          rows[std::string(opcode)].push_back(row.meaning);
        }
      }
    }
    return rows;
  }();
  return all;
}

}  // namespace

int type_bytes(std::string_view type) {
  if (type.size() < 2 || std::string_view("busf").find(type[0]) == std::string_view::npos) {
    return 0;
  }
  const std::string_view bits = type.substr(1);
  return bits == "8"                       ? 1
         : bits == "16"                    ? 2
         : bits == "32"                    ? 4
         : bits == "64"                    ? 8
         : bits == "128" && type[0] == 'b' ? 16
                                           : 0;
}

bool fits(std::string_view form, std::string_view operands) {
  return std::ranges::equal(form, operands, [](char wanted, char given) {
    const bool is_result = wanted >= 'A' && wanted <= 'Z';
    const char letter = is_result ? static_cast<char>(wanted - 'A' + 'a') : wanted;
    return letter == given || (is_result && given == '_') ||
           (!is_result && given == '#' && (wanted == 'h' || wanted == 'w' || wanted == 'q'));
  });
}

std::optional<Meaning> find_meaning(std::string_view opcode, std::string_view operands, bool& known) {
  const auto rows = table().find(std::string(opcode));
  known = rows != table().end();
  if (known) {
    for (const Meaning& meaning : rows->second) {
      if (fits(meaning.form, operands)) {
        return meaning;
      }
    }
    return std::nullopt;
  }
  std::optional<Meaning> meaning = memory_meaning(split_at('.', opcode), operands);
  known = meaning.has_value();
  return meaning && fits(meaning->form, operands) ? meaning : std::nullopt;
}

void copy_parameter(Warp& warp, const Instruction& i, u32 lanes) {
  // at[1], whose lanes have i.count bytes, to at[0], whose lanes have i.register_bytes.
  for_lanes(lanes, [&](int lane) {
    u64 value = 0;
    std::memcpy(&value, warp.registers + i.at[1] + lane * i.count, std::min(i.count, i.bytes));
    if (i.is_signed && i.bytes < 8 && (value >> (8 * i.bytes - 1) & 1) != 0) {
      value |= ~u64{0} << (8 * i.bytes);
    }
    std::memcpy(warp.registers + i.at[0] + lane * i.register_bytes, &value, i.register_bytes);
  });
}

}  // namespace onchip::ptx
