# SPDX-License-Identifier: Apache-2.0
# measure: tensors of a safetensors file give what the same numbers in .npy files give; grouped heads too.
make_npy q.npy f32 4x5x3 normal 1 && make_npy k.npy f32 2x20x3 normal 2 && make_npy v.npy f32 2x20x2 normal 3
# st FILE HEADER DATA... : length of the header in eight bytes, header, numbers
st() {
    file=$1 header=$2
    shift 2
    # shellcheck disable=SC2059  # an octal escape is meant
    { printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\0\0\0\0\0\0" &&
        printf %s "$header" && cat "$@"; } >"$file"
}
tail -c 240 q.npy >q && tail -c 480 k.npy >k && tail -c 320 v.npy >v
st dump.safetensors '{"layer.0:q":{"dtype":"F32","shape":[4,5,3],"data_offsets":[0,240]},"k":{"dtype":"F32","shape":[2,20,3],"data_offsets":[240,720]},"v":{"dtype":"F32","shape":[2,20,2],"data_offsets":[720,1040]}}' q k v
st one.safetensors '{"only":{"dtype":"F32","shape":[2,20,2],"data_offsets":[0,320]}}' v
st whole.safetensors '{"i":{"dtype":"I32","shape":[2,20,2],"data_offsets":[0,320]}}' v
esscher measure --q q.npy --k k.npy --v v.npy --output a.npy --csv --quiet >a || exit 1
measure() { esscher measure --q "$1" --k "$2" --v "$3" --quiet --csv; }
measure dump.safetensors:layer.0:q dump.safetensors:k dump.safetensors:v | cmp - a && echo same
measure ./dump.safetensors:layer.0:q k.npy one.safetensors | cmp - a && echo same
esscher measure --q dump.safetensors:layer.0:q --k dump.safetensors:k --v dump.safetensors:v --json --quiet >a.json &&
    get_json a.json provenance.inputs.0.path provenance.inputs.0.dtype provenance.inputs.0.shape
esscher measure --q q.npy --k k.npy --v v.npy --compare a.npy --tolerance 1e-5 --json --quiet >b.json && get_json b.json compare.ulp_format
refused() { measure "$@"; echo "rc=$?"; }
refused dump.safetensors:q k.npy v.npy
refused dump.safetensors k.npy v.npy
refused missing.safetensors:q k.npy v.npy
refused q.npy k.npy whole.safetensors
refused q.npy k.npy q.npy:v
