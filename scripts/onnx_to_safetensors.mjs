// SPDX-License-Identifier: Apache-2.0
// onnx_to_safetensors.mjs MODEL.onnx OUT.safetensors
//
// Writes the weights of a decoder that was exported to ONNX, in f32 and under the names of its original checkpoint.
// Weights of 8 bits, as onnxruntime's dynamic quantisation leaves them, become scale * (q - zero_point). It takes a
// graph exported by PyTorch, whose nodes are named by module:
//
//   embedding   Gather of NAME or NAME_quantized                       -> NAME
//   product     MatMul or MatMulInteger with output /a/b/MatMul...     -> a.b.weight, transposed to (outputs, inputs)
//   norm        an f32 vector called NAME.weight                       -> NAME.weight
//
// A file that is cut, or has a weight of another type, is an error.
import fs from 'node:fs'

const FLOAT = 1, UINT8 = 2, INT8 = 3 // TensorProto.DataType

// ---- protocol buffers ----

// Reads an unsigned number of 7 bits a byte; returns it and where the next byte is.
function varint(bytes, at, end) {
    let value = 0, factor = 1
    for (; at < end; factor *= 128) {
        const byte = bytes[at++]
        value += (byte & 127) * factor
        if (byte < 128)
            return [value, at]
    }
    throw new Error(`the file ends within a number at byte ${at}`)
}

// Yields the fields of a message: their number, and their value or the range of bytes that holds it.
function* fields(bytes, {at, end}) {
    while (at < end) {
        let tag, value
        ;[tag, at] = varint(bytes, at, end)
        const id = Math.floor(tag / 8), wire = tag % 8
        if (wire === 0) {
            ;[value, at] = varint(bytes, at, end)
            yield {id, value}
            continue
        }
        let size = {1: 8, 5: 4}[wire]
        if (wire === 2)
            [size, at] = varint(bytes, at, end)
        if (size === undefined || at + size > end)
            throw new Error(`no field of a message at byte ${at}`)
        yield {id, at, end: at + size, packed: wire === 2}
        at += size
    }
}

const text = (bytes, {at, end}) => bytes.toString('utf8', at, end)

// Returns the numbers of a repeated field, which may be packed into one range or stand alone.
function numbers(bytes, field) {
    if (field.value !== undefined)
        return [field.value]
    const out = []
    for (let at = field.at, value; at < field.end; out.push(value))
        [value, at] = varint(bytes, at, field.end)
    return out
}

// ---- ONNX: the numbers of fields are those of onnx.proto ----

function node(bytes, range) {
    const out = {inputs: [], output: '', op: ''}
    for (const f of fields(bytes, range)) {
        if (f.id === 1)
            out.inputs.push(text(bytes, f))
        else if (f.id === 2 && !out.output)
            out.output = text(bytes, f)
        else if (f.id === 4)
            out.op = text(bytes, f)
    }
    return out
}

function tensor(bytes, range) {
    const out = {shape: [], type: 0, name: '', data: null, single: []}
    for (const f of fields(bytes, range)) {
        if (f.id === 1)
            out.shape.push(...numbers(bytes, f))
        else if (f.id === 2)
            out.type = f.value
        else if (f.id === 4) // float_data, packed or one by one
            for (let at = f.at; at + 4 <= f.end; at += 4)
                out.single.push(bytes.readFloatLE(at))
        else if (f.id === 5) // int32_data; negative numbers have ten bytes
            out.single.push(...numbers(bytes, f).map((x) => (x < 2 ** 31 ? x : x - 2 ** 64)))
        else if (f.id === 8)
            out.name = text(bytes, f)
        else if (f.id === 9)
            out.data = bytes.subarray(f.at, f.end)
    }
    return out
}

function readGraph(bytes) {
    const nodes = [], tensors = new Map()
    for (const model of fields(bytes, {at: 0, end: bytes.length}))
        if (model.id === 7)
            for (const f of fields(bytes, model)) {
                if (f.id === 1)
                    nodes.push(node(bytes, f))
                else if (f.id === 5) {
                    const t = tensor(bytes, f)
                    tensors.set(t.name, t)
                }
            }
    return {nodes, tensors}
}

// ---- weights ----

// Returns the numbers of a tensor as they are stored.
function values(t) {
    const count = t.shape.reduce((a, b) => a * b, 1)
    const size = {[FLOAT]: 4, [UINT8]: 1, [INT8]: 1}[t.type]
    if (!size)
        throw new Error(`${t.name}: numbers of type ${t.type} are not read; types read are f32, u8 and i8`)
    if (!t.data && t.single.length === count)
        return Float32Array.from(t.single)
    if (!t.data || t.data.length !== count * size)
        throw new Error(`${t.name}: ${t.data ? t.data.length : 0} bytes for ${count} numbers of ${size} bytes`)
    const copy = Uint8Array.from(t.data).buffer // aligned
    return t.type === FLOAT ? new Float32Array(copy) : t.type === INT8 ? new Int8Array(copy) : new Uint8Array(copy)
}

// Returns a weight in f32: as it is, or scale * (q - zero_point) with one scale, or one for each column.
function weight(tensors, name) {
    const plain = tensors.get(name)
    if (plain)
        return {shape: plain.shape, data: Float32Array.from(values(plain))}
    const find = (ending) => {
        const t = tensors.get(name + ending)
        if (!t)
            throw new Error(`${name}: no ${name}${ending}`)
        return t
    }
    const quantised = find('_quantized'), q = values(quantised)
    const scale = values(find('_scale')), zero = values(find('_zero_point'))
    const data = new Float32Array(q.length), columns = quantised.shape[1]
    if (quantised.shape.length !== 2 || ![1, columns].includes(scale.length) || zero.length !== scale.length)
        throw new Error(`${name}: ${scale.length} scales and ${zero.length} zero points for ${columns} columns`)
    for (let i = 0; i < q.length; i++) {
        const c = scale.length === 1 ? 0 : i % columns
        data[i] = scale[c] * (q[i] - zero[c])
    }
    return {shape: quantised.shape, data}
}

function transposed({shape: [rows, columns], data}) {
    const out = new Float32Array(data.length)
    for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++)
            out[j * rows + i] = data[i * columns + j]
    return {shape: [columns, rows], data: out}
}

// Returns the weights of a graph by the names that a checkpoint gives them.
function weights({nodes, tensors}) {
    const out = new Map(), plainName = (input) => input.replace(/_quantized$/, '')
    for (const {op, inputs, output} of nodes) {
        if (op === 'Gather' && tensors.has(inputs[0]) && tensors.get(inputs[0]).shape.length === 2)
            out.set(plainName(inputs[0]), weight(tensors, plainName(inputs[0])))
        if ((op === 'MatMul' || op === 'MatMulInteger') && tensors.has(inputs[1])) {
            const module = output.replace(/\/MatMul_output.*$/, '').slice(1).replaceAll('/', '.')
            out.set(`${module}.weight`, transposed(weight(tensors, plainName(inputs[1]))))
        }
    }
    for (const [name, t] of tensors)
        if (t.type === FLOAT && t.shape.length === 1 && name.endsWith('.weight'))
            out.set(name, weight(tensors, name))
    return out
}

// ---- safetensors ----

function writeSafetensors(path, tensors) {
    const header = {}, names = [...tensors.keys()].sort()
    let offset = 0
    for (const name of names) {
        const {shape, data} = tensors.get(name)
        header[name] = {dtype: 'F32', shape, data_offsets: [offset, (offset += data.byteLength)]}
    }
    const json = Buffer.from(JSON.stringify(header)), padding = Buffer.alloc((8 - (json.length % 8)) % 8, ' ')
    const length = Buffer.alloc(8)
    length.writeBigUInt64LE(BigInt(json.length + padding.length))
    const part = `${path}.part` // renamed when it is complete
    const file = fs.openSync(part, 'w')
    for (const bytes of [length, json, padding, ...names.map((name) => tensors.get(name).data)])
        fs.writeFileSync(file, bytes)
    fs.closeSync(file)
    fs.renameSync(part, path)
}

const [onnx, out] = process.argv.slice(2)
if (!onnx || !out) {
    console.error('usage: onnx_to_safetensors.mjs MODEL.onnx OUT.safetensors')
    process.exit(2)
}
try {
    const found = weights(readGraph(fs.readFileSync(onnx)))
    if (found.size === 0)
        throw new Error('no weights: is this an ONNX file that PyTorch exported?')
    writeSafetensors(out, found)
} catch (error) {
    console.error(`${onnx}: ${error.message}`)
    process.exit(3)
}
